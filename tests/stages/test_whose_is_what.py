"""What belongs to a seed or to an image is used for that seed and that image, on a whole run's files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from project import METHODS, Project

from wsoup.core.class_texts import normalize
from wsoup.core.soup import Soup
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.finetune.params import MethodParams
from wsoup.finetune.training_set import read_training_sets
from wsoup.search.rank.source import load_source
from wsoup.towers.run import Run

SEEDS = (1, 2)


@pytest.fixture
def run(first_run: Project, tiny_encoder, monkeypatch) -> Run:
    monkeypatch.chdir(first_run.folder)
    return Run(Owner("test", "", {}), "photo", SEEDS, tiny_encoder)


def test_each_seed_is_trained_on_its_own_seeds_soup_and_images(run):
    method = MethodParams.model_validate(METHODS["coop_diverse"])
    sets = read_training_sets(run.artifacts, source="photo", method=method, seeds=SEEDS, encoder_id=run.encoder.id)
    texts = {seed: Soup.load(run.artifacts.soup("word", seed=seed)).texts for seed in SEEDS}
    assert texts[1] != texts[2]
    for seed in SEEDS:
        assert list(sets[seed].soup) == texts[seed]
        split = store.read_table(run.artifacts.split("photo", seed=seed))
        assert [path.removeprefix("photo/") for path in sets[seed].paths] == split["path"].to_pylist()
        assert sets[seed].labels.tolist() == split["label"].to_pylist()


def test_image_features_belong_to_the_images_of_each_seed(run):
    """Encoded here from the files that the split names, one by one."""
    source = load_source(run)
    for seed in SEEDS:
        split = store.read_table(Artifacts().split("photo", seed=seed))
        features, labels = source.images_of(seed)
        assert labels.tolist() == split["label"].to_pylist()
        for row, path in zip(features, split["path"].to_pylist(), strict=True):
            pixels = run.encoder.preprocess(Image.open(f"photo/{path}").convert("RGB"))
            with torch.no_grad():
                alone = normalize(run.encoder.model.encode_image(pixels[None]))[0]
            assert torch.allclose(row, alone, atol=1e-4)
        others = features.roll(1, dims=0)
        assert not torch.allclose(features, others, atol=1e-3), "images that differ, or the test shows nothing"


def test_rows_of_features_are_found_by_number_whatever_their_order(run, monkeypatch):
    """A store may hold the images of a split in any order."""
    from wsoup.search.rank import source as module

    plain = load_source(run)
    read = module.read_features

    def shuffled(path, **options):
        features = read(path, **options)
        order = np.random.default_rng(0).permutation(len(features.rows))
        return replace(
            features, features=features.features[order], labels=features.labels[order], rows=features.rows[order]
        )

    monkeypatch.setattr(module, "read_features", shuffled)
    other = load_source(run)
    for seed in SEEDS:
        for a, b in zip(plain.images_of(seed), other.images_of(seed), strict=True):
            assert torch.equal(a, b)
