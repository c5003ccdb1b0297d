"""Means over datasets and seeds, and what is noise.

A row's value for a seed is the mean over datasets of a role (XD, DG); what is shown is the mean over seeds and the
standard deviation over seeds (n - 1).
"""

from __future__ import annotations

import math

import numpy as np

ROLES = ("source", "xd", "dg")
MEANS = {"xd": "XD mean", "dg": "DG mean"}


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


def paired_interval(
    first: np.ndarray, second: np.ndarray, *, samples: int, confidence: float, seed: int
) -> tuple[float, float, float]:
    """Mean of second - first and its bootstrap interval, where both are (datasets, seeds) on the same images.

    Datasets and seeds are drawn anew, each with replacement and independently of the other, because both are a sample
    of what might have been; images are not, because accuracies of a dataset share them.

    Returns:
        (mean difference, lower end, upper end), in points.
    """
    difference = second - first
    generator = np.random.default_rng([seed, difference.shape[0], difference.shape[1]])
    d = generator.integers(difference.shape[0], size=(samples, difference.shape[0]))
    k = generator.integers(difference.shape[1], size=(samples, difference.shape[1]))
    means = difference[d[:, :, None], k[:, None, :]].mean(axis=(1, 2))
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(means, [tail, 100.0 - tail])
    return float(difference.mean()), float(low), float(high)
