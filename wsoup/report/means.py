"""Means over datasets and seeds.

A row's value for a seed is the mean over datasets of a role (XD, DG); what is shown is the mean over seeds and the
standard deviation over seeds (n - 1).
"""

from __future__ import annotations

import math

import numpy as np

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
