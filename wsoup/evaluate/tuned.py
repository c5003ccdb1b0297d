"""Test images seen through finetuned image towers: every image is decoded once for the models of all seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner
from wsoup.evaluate.testsets import TestSet
from wsoup.images.features import ImageList, embed_images
from wsoup.towers.encoder import Encoder


def seen_by(
    encoders: Mapping[int, Encoder],
    *,
    tests: Sequence[TestSet],
    artifacts: Artifacts,
    batch_size: int,
    owner: Owner,
) -> dict[int, list[TestSet]]:
    """The same datasets with the image features of each seed's model.

    Args:
        encoders: finetuned models by seed.
        tests: datasets as the pretrained model sees them; the images are theirs, so that counts can be paired.
        artifacts: where the manifests lie.
        batch_size: images in one forward pass.
        owner: whose resume state finished shards are.
    """
    by_dataset = embed_images(
        {str(seed): encoder for seed, encoder in encoders.items()},
        lists=[_images(test, manifest=artifacts.manifest(test.name)) for test in tests],
        batch_size=batch_size,
        on_bad_image="stop",  # what could not be decoded is not among the images any more
        label="test images",
        owner=owner,
    )
    return {
        seed: [
            replace(test, image_features=torch.from_numpy(embedded.features[str(seed)]).to(test.labels.device))
            for test, embedded in zip(tests, by_dataset, strict=True)
        ]
        for seed in encoders
    }


def _images(test: TestSet, *, manifest: Path) -> ImageList:
    """The image files of one dataset, in its order."""
    table = store.read_table(manifest, columns=["path", "digest"]).take(test.rows)
    return ImageList(test.attributes["root"], table["path"].to_pylist(), table["digest"].to_pylist())
