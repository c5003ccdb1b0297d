"""How soups are judged while they grow: the value that must rise. Finished members are counted by the same measure.

A new measure goes here. A kind has it from its own `measure`, for its search and its final counts, so that they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from wsoup.search.rank.meter import Meter

Measure = Callable[["Tensor"], tuple[Sequence[float], Sequence[int]]]
"""Sums of member features (B, C, D) -> the value that must rise, and the number of correct images, of each."""
MILLIONTHS = 1e6
"""Likelihoods are compared in millionths of a nat: a text that changes nothing must not rise by float32's rounding."""


def counted_together(texts: Sequence[str], meter: Meter, *, measure: Measure) -> list[int]:
    """Correct images of the soup up to and including each text.

    Args:
        texts: the members, in order.
        meter: features of texts on the images of one seed.
        measure: how the search judged soups.
    """
    counts = []
    for total in meter.features(texts).cumsum(dim=0):
        _, (count,) = measure(total[None])
        counts.append(count)
    return counts


def right_on(image_features: Tensor, labels: Tensor) -> Measure:
    """Measure soups by how many images (N, D) with labels (N,) their centroids get right."""
    from wsoup.core.class_texts import ClassTexts  # torch is slow to import
    from wsoup.core.scoring import Scores

    def measure(sums: Tensor) -> tuple[Sequence[int], Sequence[int]]:
        centroids = ClassTexts(sums).centroids  # (B, C, D)
        counts = Scores(image_features, centroids).right(labels).sum(dim=1).tolist()
        return counts, counts

    return measure


def likely_on(image_features: Tensor, labels: Tensor, *, scale: float) -> Measure:
    """Measure soups by the mean log likelihood of images (N, D) with labels (N,) at their centroids, in millionths."""
    from wsoup.core.class_texts import ClassTexts  # torch is slow to import
    from wsoup.search.rank.likelihood import log_likelihoods

    count = right_on(image_features, labels)

    def measure(sums: Tensor) -> tuple[Sequence[float], Sequence[int]]:
        of_label = log_likelihoods(image_features, labels, ClassTexts(sums).centroids, scale=scale)
        _, counts = count(sums)
        return millionths(of_label).tolist(), counts

    return measure


def millionths(of_label: Tensor) -> Tensor:
    """Means over images, in whole millionths of a nat: (P, N) -> (P,) float64."""
    return (MILLIONTHS * of_label.double().mean(dim=1)).round()
