"""Test images and class names of every dataset, as evaluation reads them."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.core.scoring import Scores
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.towers.encoder import Encoder
from wsoup.towers.features import HELD_BYTES, ROWS_PER_SHARD, Rows, open_features

WHERE = (("dataset", pa.string()), ("role", pa.string()))
COUNTS = (("n_correct", pa.int64()), ("n_images", pa.int64()))
"""Columns common to tables of counts: the dataset and the counts."""


@dataclass(frozen=True)
class OnDisk:
    """Image features of which only the rows that are asked for are read and moved to a device.

    Attributes:
        stored: (N, D) float32, L2-normalised.
        device: the encoder's.
    """

    stored: Rows
    device: torch.device

    def __getitem__(self, rows: slice) -> Tensor:
        return torch.from_numpy(self.stored[rows]).to(self.device)


def held_if_small(stored: Rows, *, device: torch.device) -> Tensor | OnDisk:
    """Features on the device, where every row of the tables finds them, or on disk if they exceed `HELD_BYTES`."""
    on_disk = OnDisk(stored, device)
    n_images, size = stored.shape
    n_bytes = 4 * n_images * size  # float32
    return on_disk[:] if n_bytes <= HELD_BYTES else on_disk


@dataclass(frozen=True)
class TestSet:
    """Test images of one dataset, on the encoder's device or, if they are many, on disk.

    Attributes:
        name, role: as in params.yaml.
        template, class_names: prompt template, and C names in label order.
        image_features: (N, D) float32, L2-normalised; read by `blocks`.
        labels: (N,) int64.
        rows: (N,) int64, rows of the dataset's manifest.
        attributes: attributes of the stored features: whether the split is the paper's, skipped images, ...
        baseline_template, gpt_names: as in params.yaml.
        gpt: GPT descriptors by class name, or None.
        gpt_sentences: whether these are prompts themselves.
        sentences: whole sentences by class name, or None.
    """

    name: str
    role: str
    template: str
    class_names: list[str]
    image_features: Tensor | OnDisk
    labels: Tensor
    rows: np.ndarray
    attributes: dict[str, Any]
    baseline_template: str | None = None
    gpt_names: Mapping[str, str] = field(default_factory=dict)
    gpt: Mapping[str, Sequence[str]] | None = None
    gpt_sentences: bool = False
    sentences: Mapping[str, Sequence[str]] | None = None

    __test__ = False  # tells pytest that this is not a test class

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """All images in order: the place of each block, which starts at a multiple of 8, and its features (n, D)."""
        for start in range(0, len(self.labels), ROWS_PER_SHARD):
            block = slice(start, start + ROWS_PER_SHARD)
            yield block, self.image_features[block]

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
        keys = ("role", "layout", "template", "paper_comparable", "reason", "made_with", "images", "copies_left_out")
        facts = {key: self.attributes[key] for key in keys if key in self.attributes}
        return {**facts, "n_images": len(self.labels), "n_classes": len(self.class_names)}


class ClassPrompts:
    """The distinct class prompts of several datasets, and their positions: shifts share those of the source.

    Attributes:
        stems: S class prompts without their final period.
        names: the class name in each.
    """

    def __init__(self, tests: Sequence[TestSet]) -> None:
        position: dict[tuple[str, str], int] = {}
        self._index: dict[str, Tensor] = {}
        for test in tests:
            # Two templates may give one prompt with different class names, which a text that is a template needs.
            with_names = list(zip(test.stems, test.class_names, strict=True))
            for prompt in with_names:
                position.setdefault(prompt, len(position))
            places = [position[prompt] for prompt in with_names]
            self._index[test.name] = torch.tensor(places, device=test.labels.device)
        self.stems = [stem for stem, _ in position]
        self.names = [name for _, name in position]

    def of(self, test: TestSet) -> Tensor:
        """Positions in `stems` of the classes of one dataset: (C,) int64."""
        return self._index[test.name]


def count_right(test: TestSet, class_features: Tensor) -> Tensor:
    """Images of one dataset that each of P classifiers gets right: (P, C, D) -> (P,) int64."""
    counts = torch.zeros(len(class_features), dtype=torch.int64, device=class_features.device)
    for block, images in test.blocks():
        counts += Scores(images, class_features).right(test.labels[block]).sum(dim=1)
    return counts


def load_tests(
    artifacts: Artifacts, *, encoder: Encoder, datasets: Sequence[Mapping[str, Any]] | None = None
) -> list[TestSet]:
    """Read the test images of some datasets as listed by stage evaluated (default: all of them).

    Raises:
        MissingError, MismatchError: features are missing, or of another encoder.
    """
    tests = []
    if datasets is None:
        datasets = store.read_checked_object(artifacts.evaluated)["datasets"]
    for dataset in datasets:
        name = dataset["name"]
        stored = open_features(artifacts.features(name, split="test"), encoder=encoder.id)
        labels = torch.from_numpy(stored.labels).to(encoder.device)
        tests.append(
            TestSet(
                name=name,
                role=dataset["role"],
                template=stored.attributes["template"],
                class_names=stored.class_names,
                image_features=held_if_small(stored.features, device=encoder.device),
                labels=labels,
                rows=stored.rows,
                attributes=stored.attributes,
                baseline_template=dataset["baseline_template"],
                gpt_names=dataset["gpt_names"],
                gpt=dataset["gpt"],
                gpt_sentences=dataset.get("gpt_sentences", False),
                sentences=dataset.get("sentences"),
            )
        )
    return tests


def identity_of_tests(tests: Sequence[TestSet]) -> list[object]:
    """What determines the counts on these datasets, as JSON values for the resume key."""
    values: list[object] = []
    for test in tests:
        digest = hashlib.sha256(test.labels.cpu().numpy().tobytes())
        for _, images in test.blocks():
            digest.update(images.cpu().numpy().tobytes())
        values.append([test.name, test.role, test.template, test.class_names, digest.hexdigest()])
    return values
