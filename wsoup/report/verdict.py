"""Is a gain more than noise? Paired intervals from which images two rows get right, over images, seeds and datasets.

A difference is the mean over datasets (each counts alike) of the mean over seeds and images of "the first row is right"
minus "the second row is right", in points. Its variance is the variance between seeds and that between images (or
datasets), each from its own means, and its interval is Student's with Satterthwaite's degrees of freedom: with three
seeds a bootstrap over seeds sees two thirds of their variance, and its intervals are too short. Two intervals:

* datasets held fixed: what other images of these datasets and other seeds would give;
* datasets resampled: what other datasets of this sort would give as well; wider.

Sources: variance components and degrees of freedom, Satterthwaite (1946); several comparisons, Holm (1979). One seed
says nothing of seeds, one dataset nothing of datasets: that part is then left out, or the interval is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

POWER = 0.8
"""The smallest visible difference is one that a run of this size would call more than noise so often."""


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error, both in points, with degrees of freedom."""

    mean: float
    se: float
    df: float

    def interval(self, confidence: float) -> tuple[float, float]:
        """The two-sided interval."""
        half = student_quantile((1 + confidence) / 2, df=self.df) * self.se
        return self.mean - half, self.mean + half

    @property
    def p_value(self) -> float:
        """Of no difference, two-sided."""
        if self.se == 0:
            return 1.0 if self.mean == 0 else 0.0
        return 2 * (1 - student_cdf(abs(self.mean) / self.se, df=self.df))

    def smallest_visible(self, confidence: float) -> float:
        """The true difference, in points, whose interval would leave out 0 in `POWER` of such runs."""
        reach = student_quantile((1 + confidence) / 2, df=self.df) + student_quantile(POWER, df=self.df)
        return reach * self.se


@dataclass(frozen=True)
class Comparison:
    """One row against another, on the datasets of one role.

    Attributes:
        fixed: datasets held fixed.
        resampled: datasets resampled; None with a single dataset.
    """

    fixed: Estimate
    resampled: Estimate | None


def compare(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> Comparison:
    """Compare two rows on the same images.

    Args:
        first: dataset -> (K, N) bool, the images that the row gets right with each seed; N may differ by dataset.
        second: the same datasets, seeds and images. A row that knows no seeds is repeated K times.

    Raises:
        ValueError: the two are not of the same datasets, seeds and images, or there are none.
    """
    if not first or {name: a.shape for name, a in first.items()} != {name: a.shape for name, a in second.items()}:
        raise ValueError("two rows can be compared on the same datasets, seeds and images only")
    differences = [100.0 * (first[name].astype(np.float64) - second[name]) for name in first]
    cells = np.stack([difference.mean(axis=1) for difference in differences])  # (D, K)
    mean, n = float(cells.mean()), len(differences)
    seeds = _part(cells.mean(axis=0))
    images = [(variance / n**2, df) for variance, df in (_part(each.mean(axis=0)) for each in differences)]
    fixed = _combined(mean, [seeds, *images])
    return Comparison(fixed, _combined(mean, [seeds, _part(cells.mean(axis=1))]) if n > 1 else None)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's p values of comparisons made together: at most `alpha` keeps the chance of any false one below alpha.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    for place, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def _part(values: np.ndarray) -> tuple[float, float]:
    """Variance of the mean of n values, and its degrees of freedom; nothing is known of it from one value."""
    return (float(values.var(ddof=1)) / len(values), len(values) - 1.0) if len(values) > 1 else (0.0, math.inf)


def _combined(mean: float, parts: Sequence[tuple[float, float]]) -> Estimate:
    """Parts of a variance together, with Satterthwaite's degrees of freedom.

    What is the chance of a seed on a unit (an image, a dataset) is in both parts; the intervals are a little longer for
    it, and with two or three seeds cover as they should because of it (tests/report/test_report_verdict.py).
    """
    variance = sum(part for part, _ in parts)
    doubt = sum(part**2 / df for part, df in parts)
    return Estimate(mean, math.sqrt(variance), variance**2 / doubt if doubt > 0 else math.inf)


# ------------------------------------------------------------------------------------------- Student's distribution


def student_cdf(t: float, *, df: float) -> float:
    """P(T <= t) of Student's t; `df` may be any positive number or infinite.

    >>> round(student_cdf(4.303, df=2), 4), round(student_cdf(1.96, df=math.inf), 4)
    (0.975, 0.975)
    """
    if math.isinf(df) or df > 1e6:
        return 0.5 * math.erfc(-t / math.sqrt(2))
    # With t = sqrt(df) tan(a) the density becomes proportional to cos(a)^(df - 1) on (-pi/2, pi/2).
    edge = math.atan2(t, math.sqrt(df))
    grid = np.linspace(0.0, abs(edge), 2001)
    values = np.cos(grid) ** (df - 1)
    step = grid[1]
    area = step / 3 * (values[0] + values[-1] + 4 * values[1:-1:2].sum() + 2 * values[2:-1:2].sum())  # Simpson
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(math.pi)
    return min(1.0, max(0.0, 0.5 + math.copysign(scale * float(area), t)))


def student_quantile(p: float, *, df: float) -> float:
    """The t with P(T <= t) = p, for p from 0.5 up to below 1.

    >>> round(student_quantile(0.975, df=2), 3)
    4.303
    """
    low, high = 0.0, 1.0
    while student_cdf(high, df=df) < p and high < 1e9:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, df=df) < p else (low, middle)
    return (low + high) / 2
