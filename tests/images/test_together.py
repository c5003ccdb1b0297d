"""Image shards of several methods at once: the bytes of each alone, each image decoded once."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

from wsoup.disk.store import sha256_file
from wsoup.images import features
from wsoup.images.shard import EncodeImages, ImageList
from wsoup.images.together import alone, encode_together, which_images


@pytest.fixture
def listed(in_tmp: Path) -> ImageList:
    """Five grey images."""
    for i in range(5):
        Image.fromarray(np.full((16, 16, 3), 40 * i, dtype=np.uint8)).save(f"{i}.png")
    paths = [f"{i}.png" for i in range(5)]
    return ImageList("", pa.table({"path": paths, "digest": [sha256_file(path) for path in paths]}))


def finetuned(encoder, *, seed: int):
    """The encoder with another last block, and which shares all else."""
    layers = encoder.model.visual.transformer.resblocks
    shared = {id(part): part for part in [*layers[:-1], encoder.model.transformer]}
    model = copy.deepcopy(encoder.model, memo=shared)
    torch.nn.init.normal_(
        model.visual.transformer.resblocks[-1].mlp.c_fc.weight, generator=torch.Generator().manual_seed(seed)
    )
    return dataclasses.replace(encoder, model=model, id={**encoder.id, "seed": seed})


def shard(listed: ImageList, encoders, rows: list[int]) -> EncodeImages:
    return EncodeImages(listed, np.array(rows), encoders, 2, "stop", about=str(sorted(encoders)))


def test_shards_together_have_the_bytes_of_each_alone_and_each_image_is_decoded_once(listed, tiny_encoder, monkeypatch):
    one = shard(listed, {"1": finetuned(tiny_encoder, seed=1), "2": finetuned(tiny_encoder, seed=2)}, [1, 3, 4])
    other = shard(listed, {"1": finetuned(tiny_encoder, seed=3)}, [1, 3, 4])
    expected = [one(), other()]
    decoded: list[str] = []
    batches = features.batches

    def noted(paths, **options):
        decoded.extend(paths)
        return batches(paths, **options)

    monkeypatch.setattr(features, "batches", noted)
    assert encode_together([alone(one), alone(other)]) == expected
    assert decoded == ["1.png", "3.png", "4.png"]


def test_only_shards_of_the_same_images_go_together(listed, tiny_encoder):
    encoders = {"1": tiny_encoder}
    same = which_images(shard(listed, encoders, [0, 1]))
    assert which_images(shard(listed, {"other": tiny_encoder}, [0, 1])) == same
    assert which_images(alone(shard(listed, encoders, [0, 1]))) == same
    assert which_images(shard(listed, encoders, [0, 2])) != same
    assert which_images(dataclasses.replace(shard(listed, encoders, [0, 1]), batch_size=1)) != same
    other = {"1": dataclasses.replace(tiny_encoder, preprocessing={**tiny_encoder.preprocessing, "size": 8})}
    assert which_images(shard(listed, other, [0, 1])) != same
