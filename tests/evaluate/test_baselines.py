"""Texts of the baselines: answers by hand, and draws that nest and depend on their seed alone."""

from __future__ import annotations

import re
import string
from dataclasses import replace

import numpy as np
import torch
from heads_cases import on_a_circle
from reference import REFERENCE, needs_reference

from wsoup.evaluate.answers import answer
from wsoup.evaluate.baselines import (
    ensemble_prompts,
    gpt_prompts,
    random_chains,
    random_descriptors,
    waffle,
    waffle_characters,
    waffle_shape,
)
from wsoup.evaluate.class_means import mean_prompts
from wsoup.evaluate.classifiers import class_rows
from wsoup.evaluate.counts import count
from wsoup.evaluate.rows import Material, Row
from wsoup.evaluate.testsets import TestSet
from wsoup.search.candidates import gpt, gpt_classes
from wsoup.search.pools import wording
from wsoup.towers.models import ensemble_templates, imagenet_class_names

POOL = [f"which is {word}" for word in ("red", "blue", "old", "wet", "tall", "thin")]
CHAINS = (([5, 5, 5], 1), ([5, 5], 1), ([5, 5, 5], 2))
WORDS = ["hatch", "injuring", "slab", "digital", "bins", "magnets", "keep"]


def test_waffle_shape_of_two_names_by_hand():
    # Words: 2 and 1, mean 1.5, which rounds to the even 2. Letters: 3 and 3. Spaces: 1 and 0, mean 0.5, rounds to 0, so
    # one group. Longest word: 3 and 3, and the authors then add groups - 3 % groups = 1: four characters.
    assert waffle_shape(["red fox", "cat"]) == (2, 3, 1, 4)


def test_waffle_shapes_round_to_the_nearest_and_halves_to_the_even():
    # Words: a third above 1, and 2.5. Letters: 3, and 1. Groups: 0.33 + 1, and 1.5 rounded + 1. Characters: 3 and the 1
    # that the authors add; 1, filled up to the 3 groups.
    assert waffle_shape(["red fox", "cat", "oak"]) == (1, 3, 1, 4)
    assert waffle_shape(["a b c", "a b"]) == (2, 1, 3, 1)


def test_waffle_shape_of_imagenet_is_that_of_the_authors_pool():
    # Their pool holds texts such as "hatch injuri" and "5BQVW, L79O)": two words of six letters, two groups of five.
    assert waffle_shape(imagenet_class_names()) == (2, 6, 2, 5)


def test_waffle_alternates_words_and_characters():
    texts = waffle(WORDS, characters=list("ab)"), class_names=["red foxes"] * 2, m=6, seed=1)  # 2, 4, 2 and 3
    cut = {word[:4] for word in WORDS}
    for text in texts[0::2]:
        assert set(text.removeprefix(", which has ").split(" ")) <= cut
    for text in texts[1::2]:
        assert re.fullmatch(r", which (has|is) [ab)]{3}, [ab)]{3}", text)
        assert (" is " in text) == text.removeprefix(", which is ").startswith("a")


@needs_reference
def test_waffle_is_worded_like_the_authors_texts():
    theirs = (REFERENCE / "waffle_descriptors.txt").read_text().splitlines()
    noise = [re.sub(r"^, which (is|has)? ?", "", text).removesuffix(".") for text in theirs]
    assert [f", {wording.sentence(text)}." for text in noise] == theirs
    assert sum(text.startswith(", which is ") for text in theirs) == 9


def test_waffle_characters_are_those_of_descriptors_or_else_of_a_keyboard_without_separators():
    assert waffle_characters(["a, b.", "ca"]) == ["a", "b", "c"]
    assert len(waffle_characters([])) == 92
    # A set of so many texts has its own order in each process.
    assert waffle_characters([]) == sorted(waffle_characters([]))
    assert waffle_characters([string.ascii_lowercase[::-1]]) == [*string.ascii_lowercase]


def test_longer_draws_start_with_shorter_ones_and_seeds_differ():
    assert random_descriptors(POOL, m=6, seed=1)[:2] == random_descriptors(POOL, m=2, seed=1)
    assert sorted(random_descriptors(POOL, m=9, seed=1)) == sorted(POOL)
    four, two, other = (
        waffle(WORDS, characters=["a"], class_names=["red fox"], m=m, seed=seed) for m, seed in ((4, 1), (2, 1), (4, 2))
    )
    assert four[:2] == two
    assert four != other


def test_random_chains_have_the_given_lengths_and_distinct_words():
    chains = random_chains(WORDS, lengths=[1, 3, 7], seed=4)
    assert [len(chain.split()) for chain in chains] == [1, 3, 7]
    assert all(len(set(chain.split())) == len(chain.split()) for chain in chains)


def test_each_random_chain_has_a_draw_of_its_own_and_of_its_seed():
    one, again, two = (random_chains(WORDS, lengths=lengths, seed=seed) for lengths, seed in CHAINS)
    assert one[:2] == again
    assert one[0] != one[1]
    assert one != two
    assert random_descriptors(POOL, m=6, seed=1) != random_descriptors(POOL, m=6, seed=2)


def test_waffle_of_words_has_as_many_words_as_a_class_name():
    (text,) = waffle(WORDS, characters=["b"], class_names=["great red foxes"], m=1, seed=1)
    assert len(text.removeprefix(", which has ").split()) == 3


def test_the_ensemble_keeps_what_the_template_says_after_the_class_name():
    templates = ["itap of a {}.".format, "the {} in a game.".format]
    satellite = ensemble_prompts("a photo of {}, from a satellite.", class_names=["sea"], templates=templates)
    assert satellite == [["itap of a sea, from a satellite.", "the sea in a game, from a satellite."]]
    texture = ensemble_prompts("a photo of a {} texture.", class_names=["lined"], templates=templates[:1])
    assert texture == [["itap of a lined texture."]]
    assert len(ensemble_prompts("a photo of a {}.", class_names=["cat"], templates=ensemble_templates())[0]) == 80


def test_gpt_prompts_give_each_class_its_own_descriptors():
    prompts = gpt_prompts(
        "a photo of a {}, a type of pet.",
        class_names=["cat", "dog"],
        descriptors={"dog": ["which has a tail", "which barks"], "cat": []},
    )
    assert prompts == [
        ["a photo of a cat, a type of pet."],
        ["a photo of a dog, a type of pet, which has a tail.", "a photo of a dog, a type of pet, which barks."],
    ]
    assert Row("gpt", (1,), prompts=prompts).m is None
    assert Row("gpt", (1,), prompts=prompts).texts_per_class == 1.5


def test_a_class_may_have_another_name_in_gpt_prompts():
    descriptors = {"newt": ["which is wet"], "cat": []}
    made = gpt_prompts(
        "a photo of a {}.", class_names=["newt", "cat"], descriptors=descriptors, gpt_names={"newt": "smooth newt"}
    )
    assert made == [["a photo of a smooth newt, which is wet."], ["a photo of a cat."]]


@needs_reference
def test_the_real_descriptors_give_imagenet_the_papers_5_8_texts_a_class():
    names = imagenet_class_names()
    path = REFERENCE / "gpt_descriptors/descriptors_imagenet.json"
    descriptors = gpt_classes.matched(gpt.read_descriptors(path), class_names=names, origin=path.name)
    row = Row("gpt", (1,), prompts=gpt_prompts("a photo of a {}.", class_names=names, descriptors=descriptors))
    assert round(row.texts_per_class, 1) == 5.8
    assert all(
        text.startswith(f"a photo of a {name}")
        for name, texts in zip(names, row.prompts, strict=True)
        for text in texts
    )


def test_cupls_class_text_is_of_its_sentences_alone(photo):
    """Without the template; a class that has no sentence has the prompt of its name."""
    sentences = {"red fox": ["A fox is red.", "Foxes hunt."], "cat": [], "oak": ["An oak is a tree."]}
    test = replace(photo, sentences=sentences)
    row = next(row for row in class_rows(Material((1, 2)), [test]) if row.method == "cupl")
    assert row.seeds == (1, 2)
    assert row.dataset == "photo"
    assert [list(prompts) for prompts in row.prompts] == [
        ["A fox is red.", "Foxes hunt."],
        ["a photo of a cat."],
        ["An oak is a tree."],
    ]


def test_cupl_on_a_circle(photo):
    """Sentences of the first class at 0 and 80 degrees, of the second at 90: their mean, at 40, is nearer to 60."""
    angles = {"A fox is red.": 0, "Foxes hunt.": 80, "An oak is a tree.": 90}

    class Circle:
        def encode(self, texts):
            return on_a_circle(*[angles[text] for text in texts]).float()

    row = Row("cupl", (1,), prompts=[["A fox is red.", "Foxes hunt."], ["An oak is a tree."]], dataset="d")
    means = mean_prompts(row, text_encoder=Circle()).means
    pictures, labels = on_a_circle(60, 70).float(), torch.tensor([0, 1])
    test = TestSet("d", "xd", "a {}.", ["red fox", "oak"], pictures, labels, np.arange(2), {})
    by_mode = {
        line["mode"]: line["n_correct"]
        for line in count(answer([(row, means)], test=test, logit_scale=100.0), sizes={})
    }
    assert by_mode["centroid"] == 2
