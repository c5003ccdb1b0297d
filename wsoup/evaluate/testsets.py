"""Test images and class names of every dataset, as evaluation reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.disk import store
from wsoup.disk.features import read_features
from wsoup.disk.files import Artifacts
from wsoup.towers.encoder import Encoder

WHERE = (("dataset", pa.string()), ("role", pa.string()))
COUNTS = (("n_correct", pa.int64()), ("n_images", pa.int64()))
"""Columns common to tables of counts: the dataset and the counts."""


@dataclass(frozen=True)
class TestSet:
    """Test images of one dataset, on the encoder's device.

    Attributes:
        name, role: as in params.yaml.
        template, class_names: prompt template, and C names in label order.
        image_features: (N, D) float32, L2-normalised.
        labels: (N,) int64.
        rows: (N,) int64, rows of the dataset's manifest.
        attributes: attributes of the stored features: whether the split is the paper's, skipped images, ...
        baseline_template, gpt_names: as in params.yaml.
        gpt: GPT descriptors by class name, or None.
    """

    name: str
    role: str
    template: str
    class_names: list[str]
    image_features: Tensor
    labels: Tensor
    rows: np.ndarray
    attributes: dict[str, Any]
    baseline_template: str | None = None
    gpt_names: Mapping[str, str] = field(default_factory=dict)
    gpt: Mapping[str, Sequence[str]] | None = None

    __test__ = False  # tells pytest that this is not a test class

    @property
    def stems(self) -> list[str]:
        """Class prompts without their final period: (C,)."""
        return prompts.stems(self.template, self.class_names)

    @property
    def where(self) -> dict[str, str]:
        """The columns `WHERE` of a line about this dataset."""
        return {"dataset": self.name, "role": self.role}

    @property
    def facts(self) -> dict[str, object]:
        """Facts about this dataset that are stored with results."""
        keys = ("role", "layout", "template", "paper_comparable", "reason", "made_with", "images")
        facts = {key: self.attributes[key] for key in keys if key in self.attributes}
        return {**facts, "n_images": len(self.labels), "n_classes": len(self.class_names)}


class ClassPrompts:
    """The distinct class prompts of several datasets, and their positions: shifts share those of the source.

    Attributes:
        stems: S class prompts without their final period.
    """

    def __init__(self, tests: Sequence[TestSet]) -> None:
        position: dict[str, int] = {}
        self._index: dict[str, Tensor] = {}
        for test in tests:
            stems = test.stems
            for stem in stems:
                position.setdefault(stem, len(position))
            places = [position[stem] for stem in stems]
            self._index[test.name] = torch.tensor(places, device=test.labels.device)
        self.stems = list(position)

    def of(self, test: TestSet) -> Tensor:
        """Positions in `stems` of the classes of one dataset: (C,) int64."""
        return self._index[test.name]


def load_tests(
    artifacts: Artifacts, *, encoder: Encoder, datasets: Sequence[Mapping[str, Any]] | None = None
) -> list[TestSet]:
    """Read the test images of some datasets as listed by stage evaluated (default: all of them).

    Raises:
        MissingError, MismatchError: features are missing, or of another encoder.
    """
    tests = []
    if datasets is None:
        datasets = store.read_object(artifacts.evaluated)["datasets"]
    for dataset in datasets:
        name = dataset["name"]
        stored = read_features(artifacts.features(name, split="test"), encoder=encoder.id)
        # Moved to the device once, since every block of rows reads them again.
        image_features = torch.from_numpy(stored.features).to(encoder.device)
        labels = torch.from_numpy(stored.labels).to(encoder.device)
        tests.append(
            TestSet(
                name=name,
                role=dataset["role"],
                template=stored.attributes["template"],
                class_names=stored.class_names,
                image_features=image_features,
                labels=labels,
                rows=stored.rows,
                attributes=stored.attributes,
                baseline_template=dataset["baseline_template"],
                gpt_names=dataset["gpt_names"],
                gpt=dataset["gpt"],
            )
        )
    return tests


def identity(tests: Sequence[TestSet]) -> list[object]:
    """What determines the counts on these datasets, as JSON values for the resume key."""
    values: list[object] = []
    for test in tests:
        sums = test.image_features.double().sum(dim=1)
        images = store.fingerprint([test.labels.tolist(), sums.tolist()])
        values.append([test.name, test.role, test.template, test.class_names, images])
    return values
