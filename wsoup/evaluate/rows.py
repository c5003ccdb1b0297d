"""What is counted: the methods, each a source of texts, in the order of the paper's tables.

To add a baseline, write its texts in `wsoup.evaluate.baselines`, a `Method` here, its label in `wsoup.report.labels`,
and a test. Soups of params.yaml become methods by themselves. The report imports this module, so it must not import
torch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal, Protocol

import numpy as np

from wsoup.core.modes import JudgedMode, Mode
from wsoup.core.prompts import is_template, prompt
from wsoup.evaluate import baselines
from wsoup.search.pools.params import LISTED_TEMPLATES


@dataclass(frozen=True)
class Row:
    """One classifier: texts shared by all classes, or prompts for each class of one dataset.

    Attributes:
        method: name in results, for example ``word_soup``.
        seeds: seeds it is reported for; several if nothing was drawn.
        texts: bare members; empty if there are `prompts`.
        offsets: null tokens between class name and text; each member is repeated at every offset.
        text: the text itself, for a row of one text evaluated alone.
        offset_formula: ``evaluate.offset_formula``.
        prompts: C lists of any lengths; empty if texts are shared.
        dataset: the dataset that prompts are for.
    """

    method: str
    seeds: tuple[int, ...]
    texts: tuple[str, ...] = ()
    offsets: tuple[int, ...] = (0,)
    text: str | None = None
    offset_formula: Literal["wording", "code"] = "wording"
    prompts: Sequence[Sequence[str]] = ()
    dataset: str | None = None

    @property
    def m(self) -> int | None:
        """Number of members, not counting token offsets; None if it differs by class."""
        sizes = {len(texts) for texts in self.prompts or [self.texts]}
        if len(sizes) != 1:
            return None
        return sizes.pop()

    @property
    def n_offsets(self) -> int:
        """The number of offsets as results have it: 1 without the offset trick, and 2 or more with it.

        So a trick at one offset is another row than none.
        """
        if self.offsets == (0,):
            return 1
        return max(2, len(self.offsets))

    @property
    def texts_per_class(self) -> float:
        """The paper's column m: texts per class, averaged over classes."""
        sizes = [len(texts) for texts in self.prompts or [self.texts]]
        return float(np.mean(sizes)) * len(self.offsets)


@dataclass(frozen=True)
class Material:
    """Inputs for the texts of all methods.

    Attributes:
        seeds: all seeds of the run.
        words, descriptors: the two pools.
        source_class_names: class names of the source, which determine Waffle's shapes.
        soups: members by soup name and seed.
        pools: name of the pool, by soup name.
        own_pools: texts of the other pools that soups were selected from, by name.
        upper_bound: members of the descriptor soup selected on the targets, if any.
        templates: templates of the prompt ensemble; empty to leave it out.
        template_lists: of the rows of ``evaluate.templates``, by name; an empty list stands for the dataset's own one.
        own_templates: of datasets that bring their own, by dataset.
        waffle: a list of Waffle's texts; empty to make them of the pools.
    """

    seeds: tuple[int, ...]
    words: Sequence[str] = ()
    descriptors: Sequence[str] = ()
    source_class_names: Sequence[str] = ()
    soups: Mapping[str, Mapping[int, Sequence[str]]] = field(default_factory=dict)
    pools: Mapping[str, str] = field(default_factory=dict)
    own_pools: Mapping[str, Sequence[str]] = field(default_factory=dict)
    upper_bound: Sequence[str] = ()
    templates: Sequence[Callable[[str], str]] = ()
    template_lists: Mapping[str, Sequence[str]] = field(default_factory=dict)
    own_templates: Mapping[str, Sequence[str]] = field(default_factory=dict)
    waffle: Sequence[str] = ()

    def without_templates(self) -> Material:
        """Without the soups whose members are templates, for a model that has learnt words in their place."""
        soups = {}
        for name, by_seed in self.soups.items():
            if not any(map(is_template, chain.from_iterable(by_seed.values()))):
                soups[name] = by_seed
        return replace(self, soups=soups)

    @property
    def texts_of_pools(self) -> dict[str, Sequence[str]]:
        """The texts of all pools by name."""
        return {"words": self.words, "descriptors": self.descriptors, **self.own_pools}


class PromptSource(Protocol):
    """What prompts by class need of a dataset.

    That is a `wsoup.evaluate.testsets.TestSet`, whose module imports torch, as this one must not.
    """

    @property
    def name(self) -> str: ...
    @property
    def template(self) -> str: ...
    @property
    def baseline_template(self) -> str | None: ...
    @property
    def class_names(self) -> Sequence[str]: ...
    @property
    def gpt(self) -> Mapping[str, Sequence[str]] | None: ...
    @property
    def gpt_names(self) -> Mapping[str, str]: ...
    @property
    def gpt_sentences(self) -> bool: ...
    @property
    def sentences(self) -> Mapping[str, Sequence[str]] | None: ...


@dataclass(frozen=True)
class Method:
    """A source of texts for one or more rows, given by either `texts` or `prompts`.

    Attributes:
        name: name in results.
        texts: (material, seed, m) -> texts shared by all classes; m matters only if they are drawn.
        prompts: (material, dataset) -> prompts of each class; may be empty.
        by_seed: whether the texts differ by seed.
        drawn: whether params.yaml sets how many to draw (``evaluate.baseline_m``, ``evaluate.tuned_baseline_m``).
        sized: also evaluate the first 1, 2, 4, ... texts, for tables and curves over m.
        alone: whether single texts are evaluated alone.
        offsets: whether each member is also repeated at other token offsets, for which models.
        tuned: whether finetuned models have it, too.
        weighed: whether AutoCLIP and ZPE also weigh its texts (``evaluate.weighed``).
        soup: name in params.yaml, for a soup.
        as_long: whether its texts have as many words as those of `shown_soup`.
        pools: where texts come from that are no soup's.
        keys: of params.yaml that decide the texts, besides the pools and how many are drawn.
    """

    name: str
    texts: Callable[[Material, int, int], Sequence[str]] | None = None
    prompts: Callable[[Material, PromptSource], Sequence[Sequence[str]]] | None = None
    by_seed: bool = True
    drawn: bool = False
    sized: bool = False
    alone: bool = False
    offsets: Literal["never", "pretrained", "always"] = "never"
    tuned: bool = True
    weighed: bool = False
    soup: str | None = None
    as_long: bool = False
    pools: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


def _ensemble(material: Material, dataset: PromptSource) -> Sequence[Sequence[str]]:
    template = dataset.baseline_template or dataset.template
    return baselines.ensemble_prompts(template, class_names=dataset.class_names, templates=material.templates)


def template_method(name: str) -> Method:
    """The row of a list of ``evaluate.templates``, or (`OWN_TEMPLATES`) of each dataset's own templates."""

    def prompts_of(material: Material, dataset: PromptSource) -> Sequence[Sequence[str]]:
        template = dataset.baseline_template or dataset.template
        if name == OWN_TEMPLATES:
            given = material.own_templates.get(dataset.name, ()) if material.own_templates else None
        else:
            given = material.template_lists.get(name)
        if given is None:
            return []
        if name in LISTED_TEMPLATES:
            fill = [text.format for text in given]
            return baselines.ensemble_prompts(template, class_names=dataset.class_names, templates=fill)
        whole = given or [dataset.template]
        return [[prompt(dataset.template, class_name, text) for text in whole] for class_name in dataset.class_names]

    keys = ("datasets",) if name == OWN_TEMPLATES else ("evaluate.templates",)
    return Method(f"{name}{TEMPLATES}", prompts=prompts_of, by_seed=False, tuned=False, keys=keys)


def template_methods(lists: Iterable[str], *, own: bool) -> list[Method]:
    """The methods of the rows of templates: of some lists by name, and if there are any of each dataset's own."""
    names = [*lists, OWN_TEMPLATES] if own else [*lists]
    return [template_method(name) for name in names]


def _gpt(material: Material, dataset: PromptSource) -> Sequence[Sequence[str]]:
    if dataset.gpt is None:
        return []
    return baselines.gpt_prompts(
        dataset.baseline_template or dataset.template,
        class_names=dataset.class_names,
        descriptors=dataset.gpt,
        gpt_names=dataset.gpt_names,
        are_sentences=dataset.gpt_sentences,
    )


def _cupl(material: Material, dataset: PromptSource) -> Sequence[Sequence[str]]:
    """A class's sentences as they are (Pratt et al. 2023); a class without any has its prompt."""
    if dataset.sentences is None:
        return []
    return baselines.gpt_prompts(
        dataset.template, class_names=dataset.class_names, descriptors=dataset.sentences, are_sentences=True
    )


def _waffle(material: Material, seed: int, m: int) -> Sequence[str]:
    # The authors' list, if the user gave it: its texts are drawn like descriptors.
    if material.waffle:
        return baselines.random_descriptors(material.waffle, m=m, seed=seed)
    return baselines.waffle(
        material.words,
        characters=baselines.waffle_characters(material.descriptors),
        class_names=material.source_class_names,
        m=m,
        seed=seed,
    )


def _random_chains(material: Material, seed: int, m: int) -> Sequence[str]:
    """As many words in each chain as the soup beside them has."""
    members = material.soups[shown_soup(material.soups)][seed]
    lengths = [len(text.split()) for text in members]
    return baselines.random_chains(material.words, lengths=lengths, seed=seed)


CLASS_NAME = Method("class_name", lambda material, seed, m: [""], by_seed=False)
ENSEMBLE = Method("ensemble", prompts=_ensemble, by_seed=False, tuned=False, weighed=True, keys=("evaluate.ensemble",))
GPT = Method("gpt", prompts=_gpt, by_seed=False)
CUPL = Method("cupl", prompts=_cupl, by_seed=False)
RANDOM_DESCRIPTORS = Method(
    "random_descriptors",
    lambda material, seed, m: baselines.random_descriptors(material.descriptors, m=m, seed=seed),
    drawn=True,
    sized=True,
    alone=True,
    offsets="pretrained",
    weighed=True,
    pools=("descriptors",),
    keys=("seeds",),
)
WAFFLE = Method(
    "waffle",
    _waffle,
    drawn=True,
    sized=True,
    offsets="pretrained",
    pools=("words", "descriptors"),
    keys=("seeds", "candidates.waffle"),
)
RANDOM_CHAINS = Method(
    "random_chains",
    _random_chains,
    sized=True,
    alone=True,
    tuned=False,
    weighed=True,
    as_long=True,
    pools=("words",),
    keys=("seeds",),
)
UPPER_BOUND = Method(
    "upper_bound",
    lambda material, seed, m: material.upper_bound,
    by_seed=False,
    sized=True,
    pools=("descriptors",),
    keys=("evaluate.survey.descriptors", "evaluate.survey.m"),
)

BASELINES = (CLASS_NAME, ENSEMBLE, GPT, CUPL, RANDOM_DESCRIPTORS, WAFFLE, RANDOM_CHAINS)
SIMPLE = "simple"
"""The list of ``evaluate.templates`` that is the dataset's template alone."""
OWN_TEMPLATES = "own"
"""The row of each dataset's own templates, as ``evaluate.templates`` would name it."""
TEMPLATES = "_templates"
"""Ending of the names in results of rows of ``evaluate.templates``."""
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
    of_paper = [name for name in PAPER_SOUPS if name in soups]
    others = [name for name in soups if name not in PAPER_SOUPS]
    return of_paper + others


def shown_soup(names: Collection[str]) -> str:
    """The soup that random chains are compared with: ``word`` if there is one, else the first."""
    return "word" if "word" in names else next(iter(names))


def soup_method(name: str) -> Method:
    """The method of one soup; members of `CURVE` are not evaluated alone, nor with finetuned models."""
    is_curve = name == CURVE
    offsets: Literal["never", "pretrained", "always"] = "pretrained"
    if name == "descriptor":
        offsets = "always"
    if is_curve:
        offsets = "never"
    return Method(
        row_name(name),
        lambda material, seed, m: material.soups[name][seed],
        sized=True,
        alone=not is_curve,
        offsets=offsets,
        tuned=not is_curve,
        weighed=not is_curve,
        soup=name,
    )


def row_name(soup: str) -> str:
    """Name in results of the rows of a soup of params.yaml, or of the soup of the bare class name."""
    return soup if soup == CLASS_NAME.name else f"{soup}_soup"


def judged_mode(name: str, *, mode: JudgedMode) -> Mode:
    """The mode in which a soup is judged and drawn, given ``report.mode``.

    ``paper`` means centroid for the descriptor soup and score mean for any other.
    """
    if mode != "paper":
        return mode
    if name == "descriptor":
        return "centroid"
    return "score_mean"


def judged_soups(names: Sequence[str]) -> list[str]:
    """Soups that get a verdict: all but `CURVE`."""
    return [name for name in names if name != CURVE]
