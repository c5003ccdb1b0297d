"""Counts, greedy soups and word chains of the authors' scripts, text by text."""

from __future__ import annotations

import json

import pytest
from oracle_world import DESCRIPTORS, NAMES, WORDS, images_near

import wsoup

pytestmark = pytest.mark.slow
SHAPE = {"k0": 10, "k1": 24, "patience": 16, "m": 6, "max_words": 4}
SEEDS = (1, 2)


@pytest.fixture(scope="module")
def images(tiny_encoder):
    return {seed: images_near(tiny_encoder, NAMES, template="a photo of a {}.", each=12, seed=seed) for seed in SEEDS}


@pytest.fixture(scope="module")
def found(theirs, images):
    tensors = {
        f"Caltech101/train{seed}/{part}": tensor
        for seed, both in images.items()
        for part, tensor in zip(("features", "labels"), both, strict=True)
    }
    world = {
        "source": "Caltech101", "seeds": SEEDS, "words": WORDS, "descriptors": DESCRIPTORS, "chains": SHAPE,
        "datasets": {"Caltech101": {"class_names": NAMES}},
    }  # fmt: skip
    return json.loads((theirs("search", world=world, tensors=tensors, files={}) / "search.json").read_text())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pool", ["words", "descriptors"])
def test_every_candidate_has_the_authors_count(found, images, tiny_encoder, pool, seed):
    features, labels = images[seed]
    texts = {"words": WORDS, "descriptors": DESCRIPTORS}[pool]
    ours = wsoup.score_texts(
        features, labels, texts=texts, class_names=NAMES, model=tiny_encoder.model, tokenizer=tiny_encoder.tokenizer,
        period=pool == "descriptors", progress=False,
    )  # fmt: skip
    counts = ours["n_correct"]
    assert counts == found["counts"][f"{pool}{seed}"]
    assert len({*counts}) > 5  # the texts do differ


@pytest.mark.parametrize("seed", SEEDS)
def test_greedy_soups_are_the_authors_word_for_word(found, images, tiny_encoder, seed):
    features, labels = images[seed]
    soup = wsoup.descriptor_soup(
        features, labels, class_names=NAMES, model=tiny_encoder.model, tokenizer=tiny_encoder.tokenizer,
        descriptors=DESCRIPTORS, m=len(DESCRIPTORS), seed=seed, progress=False,
    )  # fmt: skip
    assert [f" {text}." for text in soup.texts] == found["greedy"][str(seed)]


@pytest.mark.parametrize("seed", SEEDS)
def test_word_chains_are_the_authors_word_for_word_where_the_draws_are_ours(found, images, tiny_encoder, seed):
    features, labels = images[seed]
    soup = wsoup.word_soup(
        features, labels, class_names=NAMES, model=tiny_encoder.model, tokenizer=tiny_encoder.tokenizer,
        words=WORDS, seed=seed, progress=False, **SHAPE,
    )  # fmt: skip
    assert [f" {text}." for text in soup.texts] == found["chains"][str(seed)]
