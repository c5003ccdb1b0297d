"""The rows of the tables, each defined once: its texts, labels, order and where it is shown; and the paper's encoders.

Evaluation takes the texts and their sizes from here; tables, figures, the page and the terminal take the rest. To add a
baseline, write its texts in `wsoup.evaluate.baselines`, a `Method` and a `TableRow` here, and a test. Soups of
params.yaml become rows by themselves. The report imports this module, so it must not import torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wsoup.evaluate import baselines

SCALING_ENCODERS = {
    ("ViT-B-32", "openai"): "Open-AI CLIP ViT-B/32",
    ("ViT-L-14", "laion2b_s32b_b82k"): "Open CLIP ViT-L/14",
    ("coca_ViT-L-14", "laion2b_s13b_b90k"): "Open CLIP CoCa-L/14",
    ("ViT-g-14", "laion2b_s34b_b88k"): "Open CLIP ViT-g/14",
}
"""Models and weights of model_scaling.csv. Neither the paper nor the authors' code (Chris210634/word_soups:
argparse_parameters.py defaults to ViT-B-16 / openai, scripts/ablations/scaling_law.sh takes model and tag as arguments,
README.md names no others) gives the weights of the last three. These are open_clip's weights trained on LAION-2B; of
the two for ViT-g-14, the ones that reach the paper's 77.7 on ImageNet."""
ENCODER = ("ViT-B-16", "openai")
"""The encoder of the paper's other tables."""
ENCODERS = (ENCODER, *SCALING_ENCODERS)


@dataclass(frozen=True)
class Material:
    """Inputs for texts shared by all classes.

    Attributes:
        seeds: all seeds of the run.
        words, descriptors: the two pools.
        source_class_names: class names of the source, which determine Waffle's shapes.
        soups: members by soup name and seed.
        upper_bound: members of the descriptor soup selected on the targets, if any.
        class_name_weights: weight of the class name in the mean, by soup name.
        pools: words, descriptors or mixed, by soup name.
    """

    seeds: tuple[int, ...]
    words: list[str]
    descriptors: list[str]
    source_class_names: list[str]
    soups: Mapping[str, Mapping[int, list[str]]]
    upper_bound: list[str]
    class_name_weights: Mapping[str, float] = field(default_factory=dict)
    pools: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The soup that random chains are compared with: ``word`` if there is one, else the first."""
        return "word" if "word" in self.soups else next(iter(self.soups))


@dataclass(frozen=True)
class ClassMaterial:
    """Inputs for prompts that differ by class, on one dataset.

    Attributes:
        template: template for these baselines.
        class_names: C names in label order.
        templates: templates of the prompt ensemble; empty to leave it out.
        gpt: GPT descriptors by class name, or None.
        gpt_names: names to use with GPT descriptors instead of some class names.
        nearest: prompts with the descriptors nearest to each class (`wsoup.evaluate.classifiers.nearest_prompts`).
    """

    template: str
    class_names: Sequence[str]
    templates: Sequence[Callable[[str], str]]
    gpt: Mapping[str, Sequence[str]] | None
    gpt_names: Mapping[str, str] = field(default_factory=dict)
    nearest: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class Method:
    """A source of texts for one or more rows, given by either `texts` or `prompts`.

    Attributes:
        name: name in results.
        texts: (material, seed, m) -> texts shared by all classes; m matters only if they are drawn.
        prompts: inputs of one dataset -> prompts of each class; may be empty.
        by_seed: whether the texts differ by seed.
        drawn: whether params.yaml sets how many to draw (``evaluate.baseline_m``, ``evaluate.tuned_baseline_m``).
        limit: how many can be drawn; None for no limit.
        sized: also evaluate the first 1, 2, 4, ... texts, for tables and curves over m.
        alone: label of a single text evaluated alone; None if none is.
        soup: name in params.yaml, for a soup.
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
        key: key in metrics.json.
        label: label in tables, as in zero_shot.csv if the paper has the row.
        method: where the texts come from.
        mode: centroid or score_mean.
        offsets: whether each member is repeated at other token offsets.
        tuned: whether finetuned models have this row, too.
        scaling: label in model_scaling.csv.
        curve: label in the figure over m; None if not drawn.
        plain: label for readers who do not know the paper's name.
        terminal, terminal_tuned: whether the short table shows it for pretrained and for finetuned models.
        m: number of members, if not the size that tables show.
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
            classes.template, class_names=classes.class_names, descriptors=classes.gpt, gpt_names=classes.gpt_names
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
"""Name in results of the texts of ``evaluate.texts``, each evaluated alone."""
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
"""The paper's soups, in its order. Other soups follow."""
CURVE = "word_curve"
"""The word soup with more members, used only for the curve over m: tables and training use `word`."""


def table(soups: Sequence[str]) -> tuple[TableRow, ...]:
    """All rows in the order of the paper (zero_shot.csv), including those of the soups in params.yaml.

    >>> [row.key for row in table(["word_k50"])][-4:]
    ['word_k50_soup', 'word_k50_soup_score_mean', 'word_k50_soup_offsets', 'upper_bound']
    """
    ordered = [name for name in SOUP_LABELS if name in soups] + [name for name in soups if name not in SOUP_LABELS]
    rows = [row for name in ordered for row in soup_rows(name)]
    if CURVE in soups:  # extends the word soup's curve
        rows = [replace(row, curve=None) if row.method.soup == "word" else row for row in rows]
    return (*BEFORE_SOUPS, *rows, *AFTER_SOUPS)


def soup_rows(name: str) -> tuple[TableRow, ...]:
    """Rows of one soup: centroid, score mean and offset trick.

    Soups that are not the paper's are shown wherever the word soup is, and `CURVE` only in the curve.
    """
    if name == CURVE:
        return _curve_rows()
    label, title = soup_label(name), soup_title(name)
    method = _soup_method(name, alone=title)
    centroid = TableRow(method.name, label, method, curve=title, terminal=True)
    key, curve = f"{method.name}_score_mean", f"{title}, score mean"
    mean = TableRow(key, f"{label} score mean", method, "score_mean", curve=curve)
    offsets = TableRow(f"{method.name}_offsets", f"{label} + offset trick", method, offsets=True)
    if name == "descriptor":
        return centroid, mean, replace(offsets, scaling="Desc. soup + offsets")
    mean = replace(mean, scaling=SOUP_LABELS.get(name), terminal=True, terminal_tuned=True)
    return centroid, mean, replace(offsets, tuned=False)


def _curve_rows() -> tuple[TableRow, ...]:
    """Rows of `CURVE`, whose members are not evaluated alone, nor with finetuned models."""
    method, label, title = _soup_method(CURVE, alone=None), soup_label("word"), soup_title("word")
    centroid = TableRow(method.name, f"{label}, all of the curve", method, tuned=False, curve=title)
    return centroid, replace(
        centroid,
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
    """The mode in which a soup is judged and drawn, given ``report.mode``.

    ``paper`` means centroid for the descriptor soup and score mean for any other.
    """
    if mode == "paper":
        return "centroid" if name == "descriptor" else "score_mean"
    return mode


def judged_soups(names: Sequence[str]) -> list[str]:
    """Soups that get a verdict: all but `CURVE`."""
    return [name for name in names if name != CURVE]


def random_beside(name: str) -> str:
    """Name of the random control of a soup in right.parquet."""
    return f"random_beside_{name}"


def all_seeds(name: str) -> str:
    """Name in right.parquet of a soup with all seeds combined, as it is exported (`wsoup.soup.seeds`)."""
    return f"{name}_all_seeds"


def soup_label(name: str) -> str:
    """Label of a soup at the start of a line: ``Word soup``, ``Soup word_k50``."""
    return SOUP_LABELS.get(name, f"Soup {name}")


def soup_title(name: str) -> str:
    """Label of a soup within a line: ``word soup``, ``soup word_k50``."""
    label = soup_label(name)
    return label[0].lower() + label[1:]


def methods(rows: Sequence[TableRow]) -> list[Method]:
    """The distinct methods of some rows."""
    return list({row.method.name: row.method for row in rows}.values())
