"""What evaluation reads: test images and class names of every dataset, soups and pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wsoup import prompts, store
from wsoup.artifacts import Artifacts
from wsoup.evaluate.baselines import Material
from wsoup.params.datasets import DatasetParams
from wsoup.search.pools import read_pool
from wsoup.soup import Soup
from wsoup.towers import Encoder


@dataclass(frozen=True)
class TestSet:
    """Test images of one dataset, on the encoder's device.

    Attributes:
        name, role: as in params.yaml.
        template, class_names: what its classes are called.
        image_features: (N, D) float32, L2-normalised.
        labels: (N,) int64.
        rows: (N,) int64, rows of the dataset's manifest.
        attributes: what else the stored features say: whether the split is the paper's, skipped images, ...
    """

    name: str
    role: str
    template: str
    class_names: list[str]
    image_features: Tensor
    labels: Tensor
    rows: np.ndarray
    attributes: dict[str, Any]

    __test__ = False  # not a test class, whatever its name says to pytest

    @property
    def stems(self) -> list[str]:
        """Class prompts without their final period: (C,)."""
        return prompts.stems(self.template, self.class_names)

    @property
    def facts(self) -> dict[str, Any]:
        """What a reader of results wants to know of this dataset."""
        kept = ("role", "layout", "template", "paper_comparable", "reason")
        facts = {key: self.attributes[key] for key in kept if key in self.attributes}
        return {**facts, "n_images": len(self.labels), "n_classes": len(self.class_names)}

    def class_sums(self) -> Tensor:
        """Sum of the images of each class, float64 (C, D): all that alignment and uniformity need."""
        shape = (len(self.class_names), self.image_features.shape[1])
        sums = torch.zeros(shape, dtype=torch.float64, device=self.labels.device)
        return sums.index_add_(0, self.labels, self.image_features.double())


def load_tests(artifacts: Artifacts, *, datasets: Mapping[str, DatasetParams], encoder: Encoder) -> list[TestSet]:
    """The test images of every dataset of params, in their order there.

    Raises:
        MissingError, MismatchError: features are missing, or of another encoder.
    """
    tests = []
    for name, dataset in datasets.items():
        stored = store.read_features(artifacts.features(name, split="test"), encoder=encoder.id)
        tests.append(
            TestSet(
                name=name,
                role=dataset.role,
                template=stored.attributes["template"],
                class_names=stored.class_names,
                image_features=torch.from_numpy(stored.features).to(encoder.device),
                labels=torch.from_numpy(stored.labels).to(encoder.device),
                rows=stored.rows,
                attributes=stored.attributes,
            )
        )
    return tests


def load_material(
    artifacts: Artifacts,
    *,
    source: str,
    seeds: Sequence[int],
    soups: Sequence[str],
    encoder: Mapping[str, Any],
    tests: Sequence[TestSet],
) -> Material:
    """Pools and soups of all seeds; `encoder` is the id that the soups must be of.

    Raises:
        MissingError, MismatchError: a soup is missing, or was selected with another encoder.
    """
    bound = artifacts.upper_bound
    return Material(
        seeds=tuple(seeds),
        words=read_pool(artifacts.pool("words")),
        descriptors=read_pool(artifacts.pool("descriptors")),
        source_class_names=next(test.class_names for test in tests if test.name == source),
        soups={
            name: {seed: Soup.load(artifacts.soup(name, seed=seed), encoder=encoder).texts for seed in seeds}
            for name in soups
        },
        upper_bound=Soup.load(bound, encoder=encoder).texts if bound.exists() else [],
    )
