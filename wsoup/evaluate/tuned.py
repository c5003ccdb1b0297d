"""Test images seen through finetuned image towers: every image is decoded once for the models of all seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from wsoup import store
from wsoup.artifacts import Artifacts
from wsoup.evaluate.testsets import TestSet
from wsoup.images.decode import batches
from wsoup.runtime.shards import Owner, Shards, finish_shards
from wsoup.store import fingerprint
from wsoup.towers import Encoder, check_finite

IMAGES_PER_SHARD = 2048


def retest(
    tests: Sequence[TestSet],
    *,
    encoders: Mapping[int, Encoder],
    artifacts: Artifacts,
    batch_size: int,
    owner: Owner,
) -> dict[int, list[TestSet]]:
    """The same datasets with the image features of each seed's model.

    Args:
        tests: datasets as the pretrained model sees them; the images are theirs, so that counts can be paired.
        encoders: finetuned models by seed.
        artifacts: where the manifests lie.
        batch_size: images in one forward pass.
        owner: whose resume state finished shards are.
    """
    files = {test.name: _files(test, manifest=artifacts.manifest(test.name)) for test in tests}
    inputs = {str(seed): encoder.id for seed, encoder in encoders.items()}
    work = [
        Shards(
            owner,
            inputs=[inputs, test.name, fingerprint(files[test.name]), batch_size],
            n=-(-len(test.labels) // IMAGES_PER_SHARD),
        )
        for test in tests
    ]

    def task(number: int, shard: int) -> dict[str, np.ndarray]:
        name, root = tests[number].name, tests[number].attributes["root"]
        chosen = files[name][shard * IMAGES_PER_SHARD : (shard + 1) * IMAGES_PER_SHARD]
        decoded = batches(
            [str(Path(root) / path) for path, _ in chosen],
            transform=next(iter(encoders.values())).preprocess,
            batch_size=batch_size,
            digests=[digest for _, digest in chosen],
        )
        found: dict[str, list[np.ndarray]] = {str(seed): [] for seed in encoders}
        for batch in decoded:
            for seed, encoder in encoders.items():
                features = encoder.encode_images(batch.pixels).cpu()
                check_finite(features, paths=[chosen[i][0] for i in batch.positions.tolist()])
                found[str(seed)].append(features.numpy())
        return {seed: np.concatenate(parts) for seed, parts in found.items()}

    finish_shards(work, task=task, label="test images", unit="shard")
    seen: dict[int, list[TestSet]] = {seed: [] for seed in encoders}
    for test, shards in zip(tests, work, strict=True):
        parts = shards.load()
        for seed in encoders:
            features = torch.from_numpy(np.concatenate([part[str(seed)] for part in parts]))
            seen[seed].append(replace(test, image_features=features.to(test.labels.device)))
    return seen


def _files(test: TestSet, *, manifest: Path) -> list[tuple[str, str]]:
    """(path, digest) of the images of one dataset, in its order."""
    table = store.read_table(manifest, columns=["path", "digest"]).take(test.rows)
    return list(zip(table["path"].to_pylist(), table["digest"].to_pylist(), strict=True))
