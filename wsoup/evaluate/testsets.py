"""Test images and class names of every dataset, as evaluation reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.texts import fits
from wsoup.texts.tokens import Tokenizer
from wsoup.towers.encoder import Encoder

WHERE = (("dataset", pa.string()), ("role", pa.string()))
COUNTS = (("n_correct", pa.int64()), ("n_images", pa.int64()))
COSINES = (("alignment", pa.float64()), ("uniformity", pa.float64()))
"""Columns that tables of counts share: where it was counted, what, and `wsoup.core.scoring.mean_cosines`."""


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
        baseline_template, gpt_names: as in params.yaml.
        gpt: class -> GPT descriptors; None: it has none.
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

    __test__ = False  # not a test class, whatever its name says to pytest

    @property
    def stems(self) -> list[str]:
        """Class prompts without their final period: (C,)."""
        return prompts.stems(self.template, self.class_names)

    @property
    def where(self) -> dict[str, Any]:
        """`WHERE` of a line of counts on this dataset."""
        return {"dataset": self.name, "role": self.role}

    def check_texts(self, texts: Sequence[str], *, tokenizer: Tokenizer, token_offset: int = 0) -> None:
        """Raise PoolError where one of `texts` does not fit the model's context after the longest class name."""
        where, step = f"dataset {self.name}", self._shorten
        fits.check_fits(
            texts, stems=self.stems, tokenizer=tokenizer, origin=where, step=step, token_offset=token_offset
        )

    def check_prompts(self, prompts: Sequence[Sequence[str]], *, tokenizer: Tokenizer) -> None:
        """Raise PoolError for the first prompt of C lists, one a class, that does not fit the context."""
        for name, texts in zip(self.class_names, prompts, strict=True):
            origin = f"dataset {self.name}, class {name!r}"
            fits.check_prompts(texts, tokenizer=tokenizer, origin=origin, step=self._shorten)

    @property
    def _shorten(self) -> str:
        return f"shorten the name (datasets.{self.name}.class_names), or leave such long texts out of the pool"

    @property
    def facts(self) -> dict[str, Any]:
        """What a reader of results wants to know of this dataset."""
        kept = ("role", "layout", "template", "paper_comparable", "reason", "made_with", "images")
        facts = {key: self.attributes[key] for key in kept if key in self.attributes}
        return {**facts, "n_images": len(self.labels), "n_classes": len(self.class_names)}


class ClassPrompts:
    """Every class prompt of several datasets once, and which of them are whose: shifts share those of the source.

    Attributes:
        stems: S class prompts without their final period.
    """

    def __init__(self, tests: Sequence[TestSet]) -> None:
        self.stems = list(dict.fromkeys(stem for test in tests for stem in test.stems))
        position = {stem: i for i, stem in enumerate(self.stems)}
        self._index = {
            test.name: torch.tensor([position[stem] for stem in test.stems], device=test.labels.device)
            for test in tests
        }

    def of(self, test: TestSet) -> Tensor:
        """Positions in `stems` of the classes of one dataset: (C,) int64."""
        return self._index[test.name]


def load_tests(artifacts: Artifacts, *, datasets: Sequence[Mapping[str, Any]], encoder: Encoder) -> list[TestSet]:
    """The test images of every dataset, in their order; `datasets` as the stage evaluated writes them.

    Raises:
        MissingError, MismatchError: features are missing, or of another encoder.
    """
    tests = []
    for dataset in datasets:
        name = dataset["name"]
        stored = store.read_features(artifacts.features(name, split="test"), encoder=encoder.id, of=(name, "test"))
        tests.append(
            TestSet(
                name=name,
                role=dataset["role"],
                template=stored.attributes["template"],
                class_names=stored.class_names,
                image_features=torch.from_numpy(stored.features).to(encoder.device),
                labels=torch.from_numpy(stored.labels).to(encoder.device),
                rows=stored.rows,
                attributes=stored.attributes,
                baseline_template=dataset["baseline_template"],
                gpt_names=dataset["gpt_names"],
                gpt=dataset["gpt"],
            )
        )
    return tests
