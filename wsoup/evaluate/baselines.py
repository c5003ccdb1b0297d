"""The zero-shot rows of the paper's tables: which texts each method gives to the classes. Strings and draws only.

A method is a list of texts that all classes share (descriptors, chains, noise), or a list of prompts per class (prompt
ensemble, GPT descriptors). What is done with their features (centroid, score mean) is the same for all and is found in
`wsoup.evaluate.counts`.

Sources: prompt ensemble, OpenAI's 80 templates (open_clip's metadata); GPT descriptors, classification by description
(Menon & Vondrick 2023); Waffle, ExplainableML/WaffleCLIP `waffle_tools.py` (mode "waffle"): random words and random
characters in turn, in shapes taken from the class names. Differs from the authors' GPT rows (Chris210634/word_soups,
source/gpt_helpers.py) in that each dataset's own template is used, where they write "a photo of a" before every class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wsoup import prompts
from wsoup.draws import member_generator
from wsoup.errors import PoolError
from wsoup.params.evaluation import EvaluateParams

MEMBERS_SHOWN = 8
"""So many members of each soup of the first seed are also evaluated alone, beside as many random texts."""


@dataclass(frozen=True)
class Row:
    """One classifier whose texts are shared by all classes.

    Attributes:
        method: its name in results, for example ``word_soup``.
        seeds: the seeds it stands for; more than one where nothing was drawn.
        texts: the members, bare.
        offsets: null tokens between class name and text; each gives a copy of every member.
        text: what it is about, where it stands for one text alone.
    """

    method: str
    seeds: tuple[int, ...]
    texts: tuple[str, ...]
    offsets: tuple[int, ...] = (0,)
    text: str | None = None

    @property
    def m(self) -> int:
        """Members, not counting their copies at other token offsets."""
        return len(self.texts)

    @property
    def texts_per_class(self) -> float:
        """The paper's column m."""
        return float(len(self.texts) * len(self.offsets))

    def cut(self, m: Sequence[int]) -> list[Row]:
        """The first 1, 2, 4, ... members and all: a row for each size that it holds."""
        wanted = sorted({*(size for size in m if size <= self.m), self.m})
        return [replace(self, texts=self.texts[:size]) for size in wanted]


@dataclass(frozen=True)
class ClassRow:
    """One classifier with prompts of its own for each class of one dataset: C lists, of any lengths."""

    method: str
    seeds: tuple[int, ...]
    prompts: Sequence[Sequence[str]]
    offsets: tuple[int, ...] = (0,)
    text: None = None

    @property
    def m(self) -> int | None:
        """Prompts of each class; None where classes have different numbers."""
        found = {len(texts) for texts in self.prompts}
        return found.pop() if len(found) == 1 else None

    @property
    def texts_per_class(self) -> float:
        """The paper's column m: the mean over classes."""
        return float(np.mean([len(texts) for texts in self.prompts]))


@dataclass(frozen=True)
class Material:
    """What rows are made from.

    Attributes:
        seeds: all seeds of the run.
        words, descriptors: the two pools.
        source_class_names: class names that Waffle's shapes are taken from.
        soups: members by name in params.yaml and seed.
        upper_bound: members of the descriptor soup selected on the targets; empty where there is none.
    """

    seeds: tuple[int, ...]
    words: list[str]
    descriptors: list[str]
    source_class_names: list[str]
    soups: Mapping[str, Mapping[int, list[str]]]
    upper_bound: list[str]

    def drawn(self, method: str, *, m: int, seed: int) -> Row:
        """m random or Waffle descriptors."""
        if method == "random_descriptors":
            texts = random_descriptors(self.descriptors, m=m, seed=seed)
        else:
            shape = waffle_shape(self.source_class_names)
            characters = waffle_characters(self.descriptors)
            texts = waffle(self.words, characters=characters, shape=shape, m=m, seed=seed)
        return Row(method, (seed,), tuple(texts))

    @property
    def shown(self) -> str:
        """The soup that random chains and the gallery stand beside: ``word``, or the first one."""
        return "word" if "word" in self.soups else next(iter(self.soups))

    def soup(self, name: str, *, seed: int) -> Row:
        """The whole soup of one name and seed."""
        return Row(f"{name}_soup", (seed,), tuple(self.soups[name][seed]))

    def chains(self, *, seed: int) -> Row:
        """Random chains as long as those of the word soup."""
        lengths = [len(text.split()) for text in self.soups[self.shown][seed]]
        return Row("random_chains", (seed,), tuple(random_chains(self.words, lengths=lengths, seed=seed)))


def pretrained_rows(material: Material, *, params: EvaluateParams) -> list[Row]:
    """Every row with shared texts for the pretrained encoder: the tables, the curves over m, and single members."""
    rows = [Row("class_name", material.seeds, ("",))]
    if material.upper_bound:
        rows += Row("upper_bound", material.seeds, tuple(material.upper_bound)).cut(params.m)
    offsets = tuple(params.offsets)
    for seed in material.seeds:
        for method in ("random_descriptors", "waffle"):
            most = max(params.baseline_m, *params.m)
            if method == "random_descriptors":
                most = min(most, max(params.baseline_m, len(material.descriptors)))
            row = material.drawn(method, m=most, seed=seed)
            rows += row.cut([*params.m, params.baseline_m])
            rows += with_offsets(replace(row, texts=row.texts[: params.baseline_m]), offsets=offsets)
        for row in (material.soup(name, seed=seed) for name in material.soups):
            rows += [*row.cut(params.m), *with_offsets(row, offsets=offsets)]
        rows += material.chains(seed=seed).cut(params.m)
    return rows + single_rows(material)


def tuned_rows(material: Material, *, params: EvaluateParams, seed: int) -> list[Row]:
    """Rows for the model that was finetuned with one seed: that seed's soups and draws, at their full size."""
    rows = [Row("class_name", (seed,), ("",))]
    if material.upper_bound:
        rows.append(Row("upper_bound", (seed,), tuple(material.upper_bound)))
    rows += [
        material.drawn(method, m=params.tuned_baseline_m, seed=seed) for method in ("random_descriptors", "waffle")
    ]
    for name in material.soups:
        row = material.soup(name, seed=seed)
        rows += [row, *(with_offsets(row, offsets=tuple(params.offsets)) if name == "descriptor" else [])]
    return rows


def with_offsets(row: Row, *, offsets: tuple[int, ...]) -> list[Row]:
    """The offset trick's row beside a plain one; none where the only offset is 0."""
    return [] if offsets == (0,) else [replace(row, offsets=offsets)]


def single_rows(material: Material) -> list[Row]:
    """The first members of the first seed's soups, each alone, and random texts beside them."""
    seed = material.seeds[0]
    count = min(MEMBERS_SHOWN, len(material.descriptors))
    groups = [
        material.drawn("random_descriptors", m=count, seed=seed),
        *(material.soup(name, seed=seed) for name in material.soups),
        material.chains(seed=seed),
    ]
    return [Row(row.method, (seed,), (text,), text=text) for row in groups for text in row.texts[:MEMBERS_SHOWN]]


def random_descriptors(pool: Sequence[str], *, m: int, seed: int) -> list[str]:
    """m descriptors drawn without repetition; a draw of 32 begins with the draw of 16.

    Raises:
        PoolError: fewer than m descriptors in the pool.
    """
    if len(pool) < m:
        raise PoolError(
            f"{m} random descriptors are wanted but the pool has {len(pool)}; lower evaluate.baseline_m and "
            "evaluate.tuned_baseline_m, or give more descriptors"
        )
    order = member_generator(purpose="random_descriptors", seed=seed, member=0).permutation(len(pool))
    return [pool[i] for i in order[:m]]


def random_chains(words: Sequence[str], *, lengths: Sequence[int], seed: int) -> list[str]:
    """One chain of random words for each length: the grey rows beside a word soup's chains."""
    chains = []
    for i, length in enumerate(lengths):
        generator = member_generator(purpose="random_chains", seed=seed, member=i)
        chains.append(" ".join(words[j] for j in generator.choice(len(words), size=length, replace=False)))
    return chains


@dataclass(frozen=True)
class WaffleShape:
    """How long Waffle's noise is: so many words of so many letters, and so many groups of so many characters."""

    words: int
    word_length: int
    groups: int
    group_length: int


def waffle_shape(class_names: Sequence[str]) -> WaffleShape:
    """The authors' shapes for these class names (`waffle_tools.py`, mode "waffle"); rounding is to the even number.

    >>> waffle_shape(["red fox", "cat"])
    WaffleShape(words=2, word_length=3, groups=1, group_length=4)
    """
    split = [name.split(" ") for name in class_names]
    words = max(1, round(float(np.mean([len(parts) for parts in split]))))
    word_length = round(float(np.mean([np.mean([len(part) for part in parts]) for parts in split])))
    groups = round(float(np.mean([len(parts) - 1 for parts in split]))) + 1
    characters = int(np.ceil(np.mean([max(len(part) for part in parts) for parts in split])))
    characters += groups - characters % groups
    return WaffleShape(words=words, word_length=max(1, word_length), groups=groups, group_length=characters // groups)


def waffle_characters(descriptors: Sequence[str]) -> list[str]:
    """The characters that noise is drawn from, sorted: all in the descriptors but space, comma and period."""
    return sorted(set("".join(descriptors)) - set(" ,."))


def waffle(words: Sequence[str], *, characters: Sequence[str], shape: WaffleShape, m: int, seed: int) -> list[str]:
    """m Waffle descriptors, random words and random characters in turn: ``which has hatch injuri``, ``... L79O)``.

    Args:
        words: a list of common words; each drawn word is cut to `shape.word_length` letters.
        characters: see `waffle_characters`.
        shape: see `waffle_shape`.
        m: number of descriptors.
        seed: member i has a generator of its own, so that 32 begin with the 16.
    """
    texts = []
    for i in range(m):
        generator = member_generator(purpose="waffle", seed=seed, member=i)
        if i % 2 == 0:
            drawn = [words[j][: shape.word_length] for j in generator.choice(len(words), size=shape.words)]
            noise = " ".join(drawn)
        else:
            drawn = [characters[j] for j in generator.choice(len(characters), size=shape.groups * shape.group_length)]
            size = shape.group_length
            noise = ", ".join("".join(drawn[g * size : (g + 1) * size]) for g in range(shape.groups))
        texts.append(f"which has {noise}")
    return texts


def ensemble_prompts(
    template: str, *, class_names: Sequence[str], templates: Sequence[Callable[[str], str]]
) -> list[list[str]]:
    """The prompt ensemble of each class, with what the dataset's own template says after the class name.

    >>> ensemble_prompts("a photo of a {}, a type of pet.", class_names=["cat"], templates=["art of the {}.".format])
    [['art of the cat, a type of pet.']]
    """
    suffix = template.replace("{c}", "{}").split("{}")[1].removesuffix(".")
    return [[fill(name + suffix) for fill in templates] for name in class_names]


def gpt_prompts(
    template: str, *, class_names: Sequence[str], descriptors: Mapping[str, Sequence[str]]
) -> list[list[str]]:
    """Classification by description: each class with its own descriptors; a class without any is left plain.

    Raises:
        PoolError: a class is not among the descriptors' keys; names it.
    """
    missing = [name for name in class_names if name not in descriptors]
    if missing:
        raise PoolError(
            f"no GPT descriptors for class {missing[0]!r} ({len(missing)} of {len(class_names)} classes are missing); "
            "check datasets.<name>.gpt_descriptors and run `dvc repro candidates`"
        )
    return [[prompts.prompt(template, name, text) for text in descriptors[name] or [""]] for name in class_names]
