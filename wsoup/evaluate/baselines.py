"""Texts of the baselines. Strings and random draws only: no torch, no files.

A baseline is a list of texts shared by all classes (descriptors, chains, noise), or a list of prompts for each class
(prompt ensemble, GPT descriptors). `wsoup.evaluate.rows` assigns them to rows of the tables.

Sources: prompt ensemble, OpenAI's 80 templates (open_clip's metadata); GPT descriptors, classification by description
(Menon & Vondrick 2023); CuPL, sentences of each class, of which the class's text is the mean, without a template (Pratt
et al. 2023, arXiv 2209.03320); Waffle, ExplainableML/WaffleCLIP `waffle_tools.py` (mode "waffle"), which alternates
random words and random characters in shapes derived from the class names, worded like the authors' list of 512
(Chris210634/word_soups, cache/waffle_descriptors_512_count.list). On some datasets the authors use another template for
GPT rows and the prompt ensemble (source/gpt_helpers.py): ``datasets.<name>.baseline_template``.
"""

import string
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from wsoup.core import prompts
from wsoup.core.draws import member_generator
from wsoup.search.pools.wording import sentence


def random_descriptors(pool: Sequence[str], *, m: int, seed: int) -> list[str]:
    """Draw m descriptors without replacement, or all there are; a draw of 32 starts with the draw of 16."""
    # One permutation of the whole pool, so that how many are taken does not change which come first.
    generator = member_generator(purpose="random_descriptors", seed=seed, member=0)
    order = generator.permutation(len(pool))
    return [pool[i] for i in order[:m]]


def random_chains(words: Sequence[str], *, lengths: Sequence[int], seed: int) -> list[str]:
    """One chain of distinct random words for each length: the control for a word soup's chains."""
    chains = []
    for i, length in enumerate(lengths):
        generator = member_generator(purpose="random_chains", seed=seed, member=i)
        drawn = generator.choice(len(words), size=length, replace=False)
        chains.append(" ".join(words[j] for j in drawn))
    return chains


def waffle_shape(class_names: Sequence[str]) -> tuple[int, int, int, int]:
    """The size of Waffle's noise for these class names (`waffle_tools.py`, mode "waffle"); halves round to even.

    Returns:
        Numbers of words and their letters, and of groups of characters and their characters.

    >>> waffle_shape(["red fox", "cat"])
    (2, 3, 1, 4)
    """
    n_words = []
    mean_lengths = []
    longest = []
    for name in class_names:
        lengths = [len(word) for word in name.split(" ")]
        n_words.append(len(lengths))
        mean_lengths.append(np.mean(lengths))
        longest.append(max(lengths))
    words = max(1, round(float(np.mean(n_words))))
    word_length = max(1, round(float(np.mean(mean_lengths))))
    spaces = [n - 1 for n in n_words]
    groups = round(float(np.mean(spaces))) + 1
    characters = int(np.ceil(np.mean(longest)))
    # Up to a multiple of the groups; theirs adds a whole group where none is needed.
    characters += groups - characters % groups
    return words, word_length, groups, characters // groups


def waffle_characters(descriptors: Sequence[str]) -> list[str]:
    """Characters to draw noise from, sorted: those of the descriptors except space, comma and period.

    Without descriptors, ASCII letters, digits and punctuation.
    """
    characters = "".join(descriptors) or string.ascii_letters + string.digits + string.punctuation
    return sorted(set(characters) - set(" ,."))


def waffle(
    words: Sequence[str], *, characters: Sequence[str], class_names: Sequence[str], m: int, seed: int
) -> list[str]:
    """m Waffle descriptors, alternately random words and characters: ``, which has hatch injuri``, ``... L79O)``.

    As in the authors' list, each has a leading comma in addition to the prompt's, and its first letters choose the
    wording as for GPT descriptors: "which is any venomo".

    Args:
        words: common words; drawn words are cut.
        characters: see `waffle_characters`.
        class_names: of the source, which determine the shape (`waffle_shape`).
        m: number of descriptors.
        seed: each member has its own generator, so a list of 32 starts with the list of 16.
    """
    texts = []
    n_words, letters, n_groups, length = waffle_shape(class_names)
    for i in range(m):
        generator = member_generator(purpose="waffle", seed=seed, member=i)
        if i % 2 == 0:
            drawn = generator.choice(len(words), size=n_words)
            noise = " ".join(words[j][:letters] for j in drawn)
        else:
            drawn = generator.choice(len(characters), size=(n_groups, length))
            groups = []
            for group in drawn:
                groups.append("".join(characters[j] for j in group))
            # These two characters together would make the text a template.
            noise = ", ".join(groups).replace("{}", "}{")
        texts.append(f", {sentence(noise)}")
    return texts


def ensemble_prompts(
    template: str, *, class_names: Sequence[str], templates: Sequence[Callable[[str], str]]
) -> list[list[str]]:
    """The prompt ensemble of each class, with whatever the dataset's template says after the class name.

    >>> ensemble_prompts("a photo of a {}, a type of pet.", class_names=["cat"], templates=["art of the {}.".format])
    [['art of the cat, a type of pet.']]
    """
    _, _, after_name = template.replace("{c}", "{}").partition("{}")
    suffix = after_name.removesuffix(".")
    by_class = []
    for name in class_names:
        filled = [fill(name).removesuffix(".") for fill in templates]
        by_class.append([f"{text}{suffix}." for text in filled])
    return by_class


def gpt_prompts(
    template: str,
    *,
    class_names: Sequence[str],
    descriptors: Mapping[str, Sequence[str]],
    gpt_names: Mapping[str, str] = MappingProxyType({}),
    are_sentences: bool = False,
) -> list[list[str]]:
    """Classification by description: each class with its own descriptors, or none if it has none.

    Args:
        template: with one ``{}``.
        class_names: C names in label order.
        descriptors: bare descriptors of every class, by name (`wsoup.search.candidates.gpt_classes.matched`).
        gpt_names: names to use in these prompts instead of some class names.
        are_sentences: whether the descriptors are prompts themselves.
    """
    by_class = []
    for name in class_names:
        shown = gpt_names.get(name, name)
        texts = descriptors[name] or [""]
        if are_sentences and descriptors[name]:
            by_class.append([*texts])
            continue
        by_class.append([prompts.prompt(template, shown, text) for text in texts])
    return by_class
