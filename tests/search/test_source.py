"""What selection reads: texts in blocks, counts per seed, and texts that exceed the context."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
import torch

from wsoup.core.class_texts import normalize
from wsoup.core.prompts import prompt
from wsoup.core.scoring import Scores
from wsoup.search.rank.meter import Meter
from wsoup.search.rank.source import Source, identity_of_source

NAMES = ["red cat", "blue dog", "a rather small green bird"]
TEMPLATE = "a photo of a {}."


@pytest.fixture
def source(tiny_encoder) -> Source:
    features = normalize(torch.randn(30, 16, generator=torch.Generator().manual_seed(0)))
    subsets = {1: torch.arange(20), 2: torch.arange(10, 30)}
    return Source(tiny_encoder, features, torch.arange(30) % 3, subsets, TEMPLATE, NAMES)


@pytest.mark.parametrize("period", [True, False])
def test_counts_equal_those_of_plainly_encoded_prompts(source, tiny_encoder, period):
    texts = ["", "sharp", "which has claws", "sharp clean"]
    for seed, index in source.subsets.items():
        expected = []
        for text in texts:
            prompts = [prompt(TEMPLATE, name, text, period=period) for name in NAMES]
            plain = tiny_encoder.encode_texts(prompts)
            right = Scores(source.image_features[index], plain[None]).right(source.labels[index])
            expected.append(int(right.sum()))
        assert Meter(source, seed=seed, period=period).count(texts).tolist() == expected


def test_the_identity_of_images_is_their_features_and_labels(source):
    """In the resume key: another image or label of a seed is another shard, of the other seed alone if it is there."""
    moved, named = source.image_features.clone(), source.labels.clone()
    moved[5], named[5] = moved[6], 1 - named[5]
    for change in ({"image_features": moved}, {"labels": named}):
        changed = dataclasses.replace(source, **change)
        assert identity_of_source(changed, seed=1) != identity_of_source(source, seed=1)
        assert identity_of_source(changed, seed=2) == identity_of_source(source, seed=2), "image 5 is not of seed 2"
        assert identity_of_source(changed) != identity_of_source(source)
    for change in ({"template": "{}."}, {"class_names": [*NAMES[:2], "bird"]}):
        assert identity_of_source(dataclasses.replace(source, **change), seed=2) != identity_of_source(source, seed=2)


def test_a_source_that_has_encoded_texts_can_be_sent_to_another_process(source):
    counts = Meter(source, seed=1, period=True).count(["sharp"])
    sent = pickle.loads(pickle.dumps(source))
    assert Meter(sent, seed=1, period=True).count(["sharp"]) == counts
