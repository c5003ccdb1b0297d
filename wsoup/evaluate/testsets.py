"""What evaluation reads: test images and class names of every dataset, soups and pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wsoup import prompts, store
from wsoup.errors import MissingError
from wsoup.evaluate.baselines import Material
from wsoup.params.whole import Params
from wsoup.search.pools import read_pool
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


def load_tests(embeddings: Path, *, params: Params, encoder: Encoder) -> list[TestSet]:
    """The test images of every dataset of params, in their order there.

    Raises:
        MissingError, MismatchError: features are missing, or of another encoder.
    """
    tests = []
    for name, dataset in params.datasets.items():
        stored = store.read_features(embeddings / f"{name}-test.zarr", encoder=encoder.id)
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
    params: Params, *, soups: Path, pools: Path, source_class_names: Sequence[str], encoder: Mapping[str, Any]
) -> Material:
    """Pools and soups of all seeds; `encoder` is the id that the soups must be of.

    Raises:
        MissingError, MismatchError: a soup is missing, or was selected with another encoder.
    """
    upper_bound = soups / "upper_bound.json"
    return Material(
        seeds=tuple(params.seeds),
        words=read_pool(pools / "words.txt"),
        descriptors=read_pool(pools / "descriptors.txt"),
        source_class_names=list(source_class_names),
        soups={
            kind: {seed: soup_texts(soups / kind / f"seed{seed}.json", encoder=encoder) for seed in params.seeds}
            for kind in ("descriptor", "word")
        },
        upper_bound=soup_texts(upper_bound, encoder=encoder) if upper_bound.exists() else [],
    )


def soup_texts(path: Path, *, encoder: Mapping[str, Any]) -> list[str]:
    """The members of one soup file, in order."""
    if not path.exists():
        raise MissingError(f"{path} does not exist; run `dvc repro` to build it")
    return [member["text"] for member in store.read_soup(path, encoder=encoder)["members"]]
