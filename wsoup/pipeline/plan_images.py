"""How many images each dataset has, and how many bytes their features take: from manifests, or from the layouts."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch

from wsoup.check.whole import Params
from wsoup.core.errors import DataError, MissingError
from wsoup.datasets import layouts, manifest
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.evaluate.testsets import TestSet
from wsoup.towers.encoder import imagenet_class_names

SAMPLE_ROWS = 4096
FILES_SAMPLED = 200


@dataclass(frozen=True)
class Dataset:
    """What a plan knows of one dataset.

    Attributes:
        name, role, template, class_names: as in params.yaml.
        n_test, n_train: images; n_train counts the few-shot images of all seeds, 0 of a target.
        files: some of them.
        attributes: of its manifest.
        problem: why it cannot be listed; None where it can.
    """

    name: str
    role: str
    template: str
    class_names: list[str]
    n_test: int
    n_train: int
    files: list[str]
    attributes: dict[str, Any]
    problem: str | None = None

    def times(self, factor: float) -> Dataset:
        """The same with so many times as many test images."""
        return replace(self, n_test=round(self.n_test * factor))

    @property
    def tests(self) -> TestSet:
        """Its classes, without images."""
        nothing = torch.empty(0, device="meta")
        return TestSet(self.name, self.role, self.template, self.class_names, nothing, nothing, np.empty(0), {})


def dataset(name: str, params: Params, *, listed: bool) -> Dataset:
    """One dataset of params.yaml; `listed`: its manifest is up to date."""
    section, path = params.datasets[name], Artifacts().manifest(name)
    try:
        if listed and path.exists():
            table, attributes = store.read_table(path, columns=["path", "split"]), store.table_attributes(path)
        else:
            listing = layouts.read(name, params=section, imagenet_names=imagenet_class_names)
            table, names = manifest.select(
                listing, params=section, shots=params.fewshot.shots, seeds=list(params.seeds)
            )
            attributes = {"root": listing.root, "class_names": names}
    except (MissingError, DataError) as error:
        return Dataset(name, section.role, section.template, [], 0, 0, [], {}, problem=str(error))
    n_test = pc.sum(pc.equal(table["split"], "test")).as_py()
    files = [f"{attributes['root']}/{file}" for file in table["path"].slice(0, FILES_SAMPLED).to_pylist()]
    return Dataset(
        name=name,
        role=section.role,
        template=section.template,
        class_names=attributes["class_names"],
        n_test=n_test,
        n_train=table.num_rows - n_test,
        files=files,
        attributes=attributes,
    )


def features_bytes(n: int, *, size: int, attributes: dict[str, Any]) -> int:
    """Bytes on disk of the features of n images: of a sample really written, and the rest in proportion."""
    rows = min(n, SAMPLE_ROWS)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, size)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.zarr"
        store.write_features(path, store.ImageFeatures(x, np.zeros(rows), np.arange(rows), attributes))
        written = [(file.name, file.stat().st_size) for file in path.rglob("*") if file.is_file()]
    about = sum(found for name, found in written if name == "zarr.json")
    return about + round((sum(found for _, found in written) - about) * n / max(1, rows))


def total(datasets: Sequence[Dataset]) -> int:
    """Test images of all."""
    return sum(found.n_test for found in datasets)
