"""What is counted: the methods, each a source of texts, in the order of the paper's tables.

To add a baseline, write its texts in `wsoup.evaluate.baselines`, a `Method` here, its label in `wsoup.report.labels`,
and a test. Soups of params.yaml become methods by themselves. The report imports this module, so it must not import
torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wsoup.evaluate import baselines


@dataclass(frozen=True)
class Material:
    """Inputs for texts shared by all classes.

    Attributes:
        seeds: all seeds of the run.
        words, descriptors: the two pools.
        source_class_names: class names of the source, which determine Waffle's shapes.
        soups: members by soup name and seed.
        upper_bound: members of the descriptor soup selected on the targets, if any.
        pools: words, descriptors or mixed, by soup name.
    """

    seeds: tuple[int, ...]
    words: list[str]
    descriptors: list[str]
    source_class_names: list[str]
    soups: Mapping[str, Mapping[int, list[str]]]
    upper_bound: list[str]
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
        alone: whether single texts are evaluated alone.
        offsets: whether each member is also repeated at other token offsets, for which models.
        tuned: whether finetuned models have it, too.
        soup: name in params.yaml, for a soup.
    """

    name: str
    texts: Callable[[Material, int, int], Sequence[str]] | None = None
    prompts: Callable[[ClassMaterial], Sequence[Sequence[str]]] | None = None
    by_seed: bool = True
    drawn: bool = False
    limit: Callable[[Material], int] | None = None
    sized: bool = False
    alone: bool = False
    offsets: Literal["never", "pretrained", "always"] = "never"
    tuned: bool = True
    soup: str | None = None


CLASS_NAME = Method("class_name", lambda material, seed, m: [""], by_seed=False)
ENSEMBLE = Method(
    "ensemble",
    prompts=lambda classes: baselines.ensemble_prompts(
        classes.template, class_names=classes.class_names, templates=classes.templates
    ),
    by_seed=False,
    tuned=False,
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
    alone=True,
    offsets="pretrained",
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
    offsets="pretrained",
)
NEAREST = Method("nearest_descriptors", prompts=lambda classes: classes.nearest, by_seed=False, tuned=False)
RANDOM_CHAINS = Method(
    "random_chains",
    lambda material, seed, m: baselines.random_chains(
        material.words, lengths=[len(text.split()) for text in material.soups[material.shown][seed]], seed=seed
    ),
    sized=True,
    alone=True,
    tuned=False,
)
UPPER_BOUND = Method("upper_bound", lambda material, seed, m: material.upper_bound, by_seed=False, sized=True)

BASELINES = (CLASS_NAME, ENSEMBLE, GPT, RANDOM_DESCRIPTORS, WAFFLE, RANDOM_CHAINS, NEAREST)
PAPER_SOUPS = ("descriptor", "word")
"""The paper's soups, in its order. Other soups follow."""
GIVEN = "given_text"
"""Name in results of the texts of ``evaluate.texts``, each evaluated alone."""
CURVE = "word_curve"
"""The word soup with more members, used only for the curve over m: tables and training use `word`."""


def methods(soups: Sequence[str]) -> list[Method]:
    """All methods in the order of the paper's tables, including the soups in params.yaml."""
    return [*BASELINES, *map(soup_method, in_order(soups)), UPPER_BOUND]


def in_order(soups: Sequence[str]) -> list[str]:
    """Names of soups in the order of tables."""
    return [name for name in PAPER_SOUPS if name in soups] + [name for name in soups if name not in PAPER_SOUPS]


def soup_method(name: str) -> Method:
    """The method of one soup; members of `CURVE` are not evaluated alone, nor with finetuned models."""
    offsets: Literal["never", "pretrained", "always"] = "always" if name == "descriptor" else "pretrained"
    return Method(
        f"{name}_soup",
        lambda material, seed, m: material.soups[name][seed],
        sized=True,
        alone=name != CURVE,
        offsets="never" if name == CURVE else offsets,
        tuned=name != CURVE,
        soup=name,
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
