"""The rows of the tables, each written down once: its texts, its labels, its place in the order, where it is shown.

Evaluation reads which texts to count and at which sizes; tables, figures, the page and the terminal read the rest.
To add a baseline: its texts in `wsoup.evaluate.baselines`, a `Method` and its `TableRow` here, a test. A soup of
params.yaml is a row without that. There is no torch here: the report reads this, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wsoup.evaluate import baselines


@dataclass(frozen=True)
class Material:
    """What texts that all classes share are made from.

    Attributes:
        seeds: all seeds of the run.
        words, descriptors: the two pools.
        source_class_names: class names that Waffle's shapes are taken from.
        soups: members by name in params.yaml and seed.
        upper_bound: members of the descriptor soup selected on the targets; empty where there is none.
        class_name_weights: of soups in whose mean the class name takes part, by name.
    """

    seeds: tuple[int, ...]
    words: list[str]
    descriptors: list[str]
    source_class_names: list[str]
    soups: Mapping[str, Mapping[int, list[str]]]
    upper_bound: list[str]
    class_name_weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The soup that random chains stand beside: ``word``, or the first one."""
        return "word" if "word" in self.soups else next(iter(self.soups))


@dataclass(frozen=True)
class ClassMaterial:
    """What prompts of one dataset's classes are made from.

    Attributes:
        template: of these baselines on the dataset.
        class_names: the dataset's own.
        templates: of the prompt ensemble; none leaves it out.
        gpt: class -> descriptors; None where the dataset has none.
        gpt_names: what some classes are called with them.
        nearest: prompts with the descriptors nearest to each class (`wsoup.evaluate.nearest`).
    """

    template: str
    class_names: Sequence[str]
    templates: Sequence[Callable[[str], str]]
    gpt: Mapping[str, Sequence[str]] | None
    gpt_names: Mapping[str, str] = field(default_factory=dict)
    nearest: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class Method:
    """Texts, from which one row or several are made. Either `texts` or `prompts` says which.

    Attributes:
        name: its name in results.
        texts: (material, seed, m) -> texts that all classes share; m is for those that are drawn. None: see `prompts`.
        prompts: one dataset's classes -> prompts of each; empty where it has none.
        by_seed: whether seeds have texts of their own.
        drawn: whether params.yaml says how many (``evaluate.baseline_m``, ``evaluate.tuned_baseline_m``).
        limit: how many can be drawn; None for no limit.
        sized: whether the first 1, 2, 4, ... texts are counted as well, for the tables and curves over m.
        alone: what one of its texts is called where it is counted alone; None where none is.
        soup: its name in params.yaml, where it is a soup.
    """

    name: str
    texts: Callable[[Material, int, int], Sequence[str]] | None = None
    prompts: Callable[[ClassMaterial], Sequence[Sequence[str]]] | None = None
    by_seed: bool = True
    drawn: bool = False
    limit: Callable[[Material], int] | None = None
    sized: bool = False
    alone: str | None = None
    soup: str | None = None


@dataclass(frozen=True)
class TableRow:
    """One row of a table: one way to use a method's texts.

    Attributes:
        key: its name in metrics.json.
        label: its name in tables; that of zero_shot.csv where the paper has it.
        method: where its texts come from.
        mode: centroid or score_mean.
        offsets: whether each member has copies at other token offsets.
        tuned: whether finetuned models have it.
        scaling: its name in model_scaling.csv.
        curve: its name in the figure over m; None where it is not drawn.
        plain: what it is called where the paper's name for it would not be understood.
        terminal, terminal_tuned: whether the short table shows it, of the pretrained model and of finetuned ones.
        m: members, where it is not the size that tables show.
    """

    key: str
    label: str
    method: Method
    mode: str = "centroid"
    offsets: bool = False
    tuned: bool = True
    scaling: str | None = None
    curve: str | None = None
    plain: str | None = None
    terminal: bool = False
    terminal_tuned: bool = False
    m: int | None = None


CLASS_NAME = Method("class_name", lambda material, seed, m: [""], by_seed=False)
ENSEMBLE = Method(
    "ensemble",
    prompts=lambda classes: baselines.ensemble_prompts(
        classes.template, class_names=classes.class_names, templates=classes.templates
    ),
    by_seed=False,
)
GPT = Method(
    "gpt",
    prompts=lambda classes: (
        []
        if classes.gpt is None
        else baselines.gpt_prompts(
            classes.template, class_names=classes.class_names, descriptors=classes.gpt, called=classes.gpt_names
        )
    ),
    by_seed=False,
)
RANDOM_DESCRIPTORS = Method(
    "random_descriptors",
    lambda material, seed, m: baselines.random_descriptors(material.descriptors, m=m, seed=seed),
    drawn=True,
    limit=lambda material: len(material.descriptors),
    sized=True,
    alone="random descriptor",
)
WAFFLE = Method(
    "waffle",
    lambda material, seed, m: baselines.waffle(
        material.words,
        characters=baselines.waffle_characters(material.descriptors),
        shape=baselines.waffle_shape(material.source_class_names),
        m=m,
        seed=seed,
    ),
    drawn=True,
    sized=True,
)
NEAREST = Method("nearest_descriptors", prompts=lambda classes: classes.nearest, by_seed=False)
RANDOM_CHAINS = Method(
    "random_chains",
    lambda material, seed, m: baselines.random_chains(
        material.words, lengths=[len(text.split()) for text in material.soups[material.shown][seed]], seed=seed
    ),
    sized=True,
    alone="random chain",
)
UPPER_BOUND = Method("upper_bound", lambda material, seed, m: material.upper_bound, by_seed=False, sized=True)

GIVEN = "given_text"
"""Results' name of the texts of ``evaluate.texts``, each alone."""
BEFORE_SOUPS = (
    TableRow(
        "class_name",
        "CLIP ZS",
        CLASS_NAME,
        scaling="ZS",
        plain="Class name only",
        terminal=True,
        terminal_tuned=True,
    ),
    TableRow("ensemble", "Ensemble", ENSEMBLE, plain="80 prompt templates", tuned=False, terminal=True),
    TableRow("gpt_centroids", "GPT centroids", GPT, curve="GPT centroids"),
    TableRow("gpt_score_mean", "GPT score mean", GPT, "score_mean", scaling="GPT score mean"),
    TableRow("random_descriptors", "Random descriptors", RANDOM_DESCRIPTORS, curve="random descriptors", terminal=True),
    TableRow(
        "random_descriptors_offsets",
        "Random descriptors + offset trick",
        RANDOM_DESCRIPTORS,
        offsets=True,
        tuned=False,
    ),
    TableRow("waffle", "Waffle CLIP", WAFFLE, scaling="Waffle CLIP", curve="Waffle", terminal=True),
    TableRow("waffle_offsets", "Waffle CLIP + offset trick", WAFFLE, offsets=True, tuned=False),
    TableRow("random_chains", "Random word chains", RANDOM_CHAINS, tuned=False),
    TableRow("nearest_descriptors", "Nearest descriptors", NEAREST, tuned=False, terminal=True),
)
AFTER_SOUPS = (TableRow("upper_bound", "Descriptor soup upper bound", UPPER_BOUND),)
SOUP_LABELS = {"descriptor": "Descriptor soup", "word": "Word soup"}
"""The paper's soups, in its order. Those of other names come behind them."""
CURVE = "word_curve"
"""The word soup with more members, for the curve over m alone: the tables and training have `word`."""


def table(soups: Sequence[str]) -> tuple[TableRow, ...]:
    """All rows in the order of the paper (zero_shot.csv), with those of the soups of params.yaml.

    >>> [row.key for row in table(["word_k50"])][-4:]
    ['word_k50_soup', 'word_k50_soup_score_mean', 'word_k50_soup_offsets', 'upper_bound']
    """
    ordered = [name for name in SOUP_LABELS if name in soups] + [name for name in soups if name not in SOUP_LABELS]
    rows = [row for name in ordered for row in soup_rows(name)]
    if CURVE in soups:  # it draws the word soup's curve, further
        rows = [replace(row, curve=None) if row.method.soup == "word" else row for row in rows]
    return (*BEFORE_SOUPS, *rows, *AFTER_SOUPS)


def soup_rows(name: str) -> tuple[TableRow, ...]:
    """Rows of one soup: its centroid, its score mean, and with the offset trick.

    Soups of other names are shown wherever the word soup is, `CURVE` in the curve alone.
    """
    if name == CURVE:
        return _curve_rows()
    label, title = soup_label(name), soup_title(name)
    method = _soup_method(name, alone=title)
    plain = TableRow(method.name, label, method, curve=title, terminal=True)
    key, curve = f"{method.name}_score_mean", f"{title}, score mean"
    mean = TableRow(key, f"{label} score mean", method, "score_mean", curve=curve)
    offsets = TableRow(f"{method.name}_offsets", f"{label} + offset trick", method, offsets=True)
    if name == "descriptor":
        return plain, mean, replace(offsets, scaling="Desc. soup + offsets")
    used = replace(mean, scaling=SOUP_LABELS.get(name), terminal=True, terminal_tuned=True)
    return plain, used, replace(offsets, tuned=False)


def _curve_rows() -> tuple[TableRow, ...]:
    """The word soup's curve: no size of it is counted alone, and no finetuned model has it."""
    method, label, title = _soup_method(CURVE, alone=None), soup_label("word"), soup_title("word")
    plain = TableRow(method.name, f"{label}, all of the curve", method, tuned=False, curve=title)
    return plain, replace(
        plain,
        key=f"{method.name}_score_mean",
        label=f"{label} score mean, all of the curve",
        mode="score_mean",
        curve=f"{title}, score mean",
    )


def _soup_method(name: str, *, alone: str | None) -> Method:
    return Method(
        f"{name}_soup", lambda material, seed, m: material.soups[name][seed], sized=True, alone=alone, soup=name
    )


def judged_mode(name: str, *, mode: str) -> str:
    """The mode in which a soup is judged and drawn; `mode` is ``report.mode``.

    ``paper``: a descriptor soup is used as a centroid, any other as a score mean.
    """
    if mode == "paper":
        return "centroid" if name == "descriptor" else "score_mean"
    return mode


def judged_soups(names: Sequence[str]) -> list[str]:
    """Soups that the verdict is about: all but the one that only draws a curve."""
    return [name for name in names if name != CURVE]


def random_beside(name: str) -> str:
    """What the random texts beside a soup are called, where images that are right are stored for the verdict."""
    return f"random_beside_{name}"


def all_seeds(name: str) -> str:
    """The same of a soup whose seeds stand together, as it is handed out (`wsoup.soup.seeds`)."""
    return f"{name}_all_seeds"


def soup_label(name: str) -> str:
    """What a soup is called at the beginning of a line: ``Word soup``, ``Soup word_k50``."""
    return SOUP_LABELS.get(name, f"Soup {name}")


def soup_title(name: str) -> str:
    """The same within a line: ``word soup``, ``soup word_k50``."""
    label = soup_label(name)
    return label[0].lower() + label[1:]


def methods(rows: Sequence[TableRow]) -> list[Method]:
    """The methods of some rows, each once."""
    return list({row.method.name: row.method for row in rows}.values())
