"""What each seed trains on: its own few-shot images and its own soup."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from finetune_cases import finetune_params

from wsoup.core.member import Member
from wsoup.core.soup import Soup
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.finetune.training_set import TrainingSet, read_training_sets
from wsoup.towers.features import ImageFeatures, write_features

ENCODER = {"model": "m", "pretrained": "p"}
TEMPLATE = "a photo of a {}."
ROWS = {1: [0, 3], 2: [1, 2]}
"""Rows of the manifest in the split of each seed."""


@pytest.fixture
def artifacts(in_tmp: Path) -> Artifacts:
    """Four listed images of two classes, of which row 1 could not be decoded; a split and a soup for each seed."""
    Path("images").mkdir()
    listed = Artifacts()
    paths = ["cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"]
    labels = [0, 0, 1, 1]
    table = {"path": paths, "label": labels, "digest": ["c0", "c1", "d0", "d1"]}
    attributes = {"root": "images", "template": TEMPLATE, "class_names": ["cat", "dog"]}
    store.write_table(listed.manifest("pets"), pa.table(table), attributes=attributes)
    for seed, rows in ROWS.items():
        split = {"path": [paths[i] for i in rows], "label": [labels[i] for i in rows], "row": rows}
        store.write_table(listed.split("pets", seed=seed), pa.table(split))
        members = (Member(f"of seed {seed}"), Member("both"))
        Soup("chains", seed, TEMPLATE, ENCODER, members).save(listed.soup("word", seed=seed))
    decoded = np.array([0, 2, 3])
    features = ImageFeatures(np.ones((3, 1)), np.zeros(3), decoded, {"encoder": ENCODER})
    write_features(listed.features("pets", split="train"), features)
    return listed


def read(artifacts: Artifacts, *seeds: int) -> dict[int, TrainingSet]:
    method = finetune_params().methods["coop"].model_copy(update={"soup": "word"})
    return read_training_sets(artifacts, source="pets", method=method, seeds=seeds, encoder_id=ENCODER)


def test_each_seed_has_its_own_images_and_its_own_soup(artifacts):
    """Of seed 2's two images one could not be decoded: no selection saw it, so nothing is trained on it."""
    first, second = read(artifacts, 1, 2).values()
    assert (first.paths, first.digests) == (["images/cat/0.png", "images/dog/1.png"], ["c0", "d1"])
    assert (second.paths, second.digests) == (["images/dog/0.png"], ["d0"])
    assert (first.labels.tolist(), second.labels.tolist()) == ([0, 1], [1])
    assert (first.soup, second.soup) == (["of seed 1", "both"], ["of seed 2", "both"])


def test_a_seed_is_read_alike_alone_and_after_another(artifacts):
    assert read(artifacts, 2)[2].about == read(artifacts, 1, 2)[2].about


def test_other_labels_or_texts_are_another_training(artifacts):
    """What is stored beside weights tells trainings apart; the order of labels matters, as that of images does."""
    (training,) = read(artifacts, 1).values()
    about = training.about
    others = [
        {"labels": training.labels[::-1].copy()},
        {"digests": training.digests[::-1]},
        {"soup": training.soup[::-1]},
        {"template": "{}."},
    ]
    for change in others:
        assert type(training)(**{**vars(training), **change}).about != about
