"""Small section `evaluate`, random test images with random labels, and one row of a table."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.testsets import TestSet

NAMES = ["red fox", "cat", "oak"]


def evaluate_params(**changes: object) -> EvaluateParams:
    """Sizes of one and two, no offsets and no texts; with changes."""
    sizes = {"m": [1, 2], "baseline_m": 1, "tuned_baseline_m": 1, "offsets": [0], "offset_formula": "wording"}
    survey = {"descriptors": 1, "chains": 1, "chain_length": 1, "m": 1}
    return EvaluateParams.model_validate(
        {**sizes, "ensemble": False, "weighed": False, "texts": [], "survey": survey, **changes}
    )


def images(
    name: str, *, role: str, names: list[str], n: int, width: int, template: str = "a photo of a {}."
) -> TestSet:
    """n random unit vectors with random labels."""
    generator = torch.Generator().manual_seed(len(name))
    return TestSet(
        name=name,
        role=role,
        template=template,
        class_names=names,
        image_features=F.normalize(torch.randn(n, width, generator=generator), dim=1),
        labels=torch.randint(len(names), (n,), generator=generator),
        rows=np.arange(100, 100 + n),
        attributes={},
    )


def line(table, **values):
    """The only row of a table with these values."""
    (row,) = [row for row in table.to_pylist() if all(row[key] == value for key, value in values.items())]
    return row
