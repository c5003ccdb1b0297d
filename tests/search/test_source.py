"""What selection reads: texts in blocks, counts per seed, and texts that exceed the context."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pyarrow as pa
import pytest
import torch

from wsoup.base.errors import MismatchError
from wsoup.core.class_texts import normalize
from wsoup.core.prompts import prompt
from wsoup.core.scoring import Scores
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.search.rank.meter import Meter
from wsoup.search.rank.source import Source, identity_of_source, load_source
from wsoup.towers.features import ImageFeatures, write_features
from wsoup.towers.run import Run

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


def test_images_are_found_by_their_row_of_the_manifest_wherever_their_features_lie(in_tmp, tiny_encoder):
    """Features of rows 7, 2, 9 and 4, in this order, and a split that lists them in another; row 5 was skipped."""
    artifacts = Artifacts()
    about = {"class_names": NAMES, "template": TEMPLATE, "encoder": tiny_encoder.id, "skipped": ["5.png"]}
    features = np.eye(4, 16, dtype=np.float32)
    stored = ImageFeatures(features, np.array([0, 1, 2, 0]), np.array([7, 2, 9, 4]), about)
    write_features(artifacts.features("pets", split="train"), stored)
    for seed, rows in ((1, [2, 4, 5]), (2, [9, 7])):
        store.write_table(artifacts.split("pets", seed=seed), pa.table({"row": rows}))
    owner = Owner("score@words", code="", packages={})
    loaded = load_source(Run(owner, "pets", (1, 2), tiny_encoder, artifacts))
    for seed, images, labels in ((1, [1, 3], [1, 0]), (2, [2, 0], [2, 0])):
        shown, shown_labels = loaded.images_of(seed)
        assert shown.argmax(dim=1).tolist() == images
        assert shown_labels.tolist() == labels
    store.write_table(artifacts.split("pets", seed=2), pa.table({"row": [9, 7, 5, 6]}))
    with pytest.raises(MismatchError, match=r"seed2.parquet names images that .* lacks"):
        load_source(Run(owner, "pets", (1, 2), tiny_encoder, artifacts))


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
