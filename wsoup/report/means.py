"""Means over datasets and seeds, and what base-to-new runs have in their place.

A row's value for a seed is the mean over datasets of a role (XD, DG); what is shown is the mean over seeds and the
standard deviation over seeds (n - 1).

Base to new is the protocol of CoCoOp (arXiv 2203.05557, section 4.1): of the classes in label order the first half
(rounded up) is base, which soups and training see, the rest is new and a target. Images of a half are classified among
that half's class names alone, and the harmonic mean H = 2 base new / (base + new) is high only where both are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from wsoup.core.params.datasets import DatasetParams

ROLES = ("source", "xd", "dg")
MEANS = {"xd": "XD mean", "dg": "DG mean"}
PLACES = {"source": "source", **MEANS}
"""Where soups are judged: the source's held-out test images, and the targets."""


def is_number(value: object) -> bool:
    """A number that is one: not None, not NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def mean_and_std(values: np.ndarray) -> tuple[float, float]:
    """Mean over datasets, then mean and standard deviation over seeds: (datasets, seeds) -> two numbers.

    The deviation is 0 for a single seed. NaN where there is no dataset or a result is missing.
    """
    if not len(values):
        return float("nan"), float("nan")
    by_seed = values.mean(axis=0)
    return float(by_seed.mean()), float(by_seed.std(ddof=1)) if len(by_seed) > 1 else 0.0


def pair_of_halves(datasets: Mapping[str, DatasetParams]) -> tuple[str, str] | None:
    """Names of the base half, which is the source, and of the new half, the first XD target on the same files.

    None where the source is no base half, or where no target is the rest of it.
    """
    pairs = (
        (base, new)
        for base, source in datasets.items()
        for new, target in datasets.items()
        if (source.role, source.classes) == ("source", "base")
        and (target.role, target.classes) == ("xd", "new")
        and _files(target) == _files(source)
    )
    return next(pairs, None)


def _files(dataset: DatasetParams) -> tuple[Path, str, str | None]:
    """What decides which classes there are: several of the paper's datasets lie under one root, told by layout."""
    return Path(dataset.root), dataset.layout, dataset.class_names


def harmonic(base: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Harmonic mean of two accuracies, elementwise; 0 where both are 0, NaN where one is missing.

    >>> harmonic(np.array([60.0, 0.0]), np.array([30.0, 0.0])).tolist()
    [40.0, 0.0]
    """
    total = base + new
    return 2.0 * base * new / np.where(total == 0.0, 1.0, total)
