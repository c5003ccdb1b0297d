"""Texts of the baselines: what each gives to the classes. Strings and draws only.

A baseline is a list of texts that all classes share (descriptors, chains, noise), or a list of prompts per class
(prompt ensemble, GPT descriptors). Which of them is which row of the tables stands in `wsoup.evaluate.rows`.

Sources: prompt ensemble, OpenAI's 80 templates (open_clip's metadata); GPT descriptors, classification by description
(Menon & Vondrick 2023); Waffle, ExplainableML/WaffleCLIP `waffle_tools.py` (mode "waffle"): random words and random
characters in turn, in shapes taken from the class names; worded as the authors' list of 512 (Chris210634/word_soups,
cache/waffle_descriptors_512_count.list) is. Differs from their GPT rows (source/gpt_helpers.py) in that each dataset's
own template is used, where they write "a photo of a" before every class.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wsoup.core import prompts
from wsoup.core.draws import member_generator
from wsoup.core.errors import PoolError
from wsoup.search.rank.gpt import sentence


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
    """The characters that noise is drawn from, sorted: all in the descriptors but space, comma and period.

    Without descriptors: ASCII letters, digits and punctuation.
    """
    characters = "".join(descriptors) or string.ascii_letters + string.digits + string.punctuation
    return sorted(set(characters) - set(" ,."))


def waffle(words: Sequence[str], *, characters: Sequence[str], shape: WaffleShape, m: int, seed: int) -> list[str]:
    """m Waffle descriptors, random words and random characters in turn: ``, which has hatch injuri``, ``... L79O)``.

    As in the authors' list each begins with a comma of its own, behind that of the prompt, and is worded by its first
    letters as a GPT descriptor is: "which is any venomo".

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
        texts.append(f", {sentence(noise)}")
    return texts


def ensemble_prompts(
    template: str, *, class_names: Sequence[str], templates: Sequence[Callable[[str], str]]
) -> list[list[str]]:
    """The prompt ensemble of each class, ending in what the dataset's own template says after the class name.

    >>> ensemble_prompts("a photo of a {}, a type of pet.", class_names=["cat"], templates=["art of the {}.".format])
    [['art of the cat, a type of pet.']]
    """
    suffix = template.replace("{c}", "{}").split("{}")[1].removesuffix(".")
    return [[f"{fill(name).removesuffix('.')}{suffix}." for fill in templates] for name in class_names]


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
