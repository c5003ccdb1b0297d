"""How many images each dataset has, and how many bytes their features take: from manifests, or from the layouts."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch

from wsoup.check.whole import Params
from wsoup.datasets import layouts, manifest
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.evaluate.testsets import TestSet
from wsoup.towers.encoder import imagenet_class_names

SAMPLE_ROWS = 4096
FILES_SAMPLED = 20


@dataclass(frozen=True)
class Dataset:
    """What a plan knows of one dataset.

    Attributes:
        tests: its classes, without images.
        n_test, n_train: images; n_train counts the few-shot images of all seeds, 0 of a target.
        files: some of them.
        attributes: of its manifest.
    """

    tests: TestSet
    n_test: int
    n_train: int
    files: list[str]
    attributes: dict[str, Any]


def dataset(name: str, params: Params, *, listed: bool) -> Dataset:
    """One dataset of params.yaml; `listed`: its manifest is up to date.

    Raises:
        MissingError, DataError: it cannot be listed.
    """
    section, path = params.datasets[name], Artifacts().manifest(name)
    if listed and path.exists():
        table, attributes = store.read_table(path, columns=["path", "split"]), store.table_attributes(path)
    else:
        listing = layouts.read(name, params=section, imagenet_names=imagenet_class_names)
        table, names = manifest.select(listing, params=section, shots=params.fewshot.shots, seeds=list(params.seeds))
        attributes = {"root": listing.root, "class_names": names}
    n_test = pc.sum(pc.equal(table["split"], "test")).as_py()
    nothing = torch.empty(0, device="meta")
    classes = attributes["class_names"]
    return Dataset(
        tests=TestSet(name, section.role, section.template, classes, nothing, nothing, np.empty(0), {}),
        n_test=n_test,
        n_train=table.num_rows - n_test,
        files=[f"{attributes['root']}/{file}" for file in table["path"].slice(0, FILES_SAMPLED).to_pylist()],
        attributes=attributes,
    )


def features_bytes(n: int, *, size: int, attributes: dict[str, Any]) -> int:
    """Bytes on disk of the features of n images: of a sample really written, and the rest in proportion."""
    rows = min(n, SAMPLE_ROWS)
    x = np.random.default_rng(0).standard_normal((rows, size)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.zarr"
        store.write_features(path, store.ImageFeatures(x, np.zeros(rows), np.arange(rows), attributes))
        sizes = [(file.name, file.stat().st_size) for file in path.rglob("*") if file.is_file()]
    fixed = sum(size for name, size in sizes if name == "zarr.json")
    return fixed + round((sum(size for _, size in sizes) - fixed) * n / max(1, rows))
