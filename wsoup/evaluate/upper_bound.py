"""The descriptor soup that the targets themselves would select: a bound, and no result.

Algorithm 1 with the mean accuracy over the cross-dataset test sets (XD) as its measure, as in the paper; where a run
has none, over its shifts. No method may do that, and it is marked as a bound wherever it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa
import torch
from torch import Tensor

from wsoup.core.scoring import correct_per_candidate, normalize
from wsoup.evaluate.transfer import Grid
from wsoup.search.grow.greedy import greedy_soup
from wsoup.soup.member import Member


def mean_accuracy(n_correct: Sequence[int], *, n_images: Sequence[int]) -> int:
    """The mean accuracy over datasets as an integer, on a scale that is the same for all: exact to compare.

    >>> mean_accuracy([1, 1], n_images=[2, 3]) > mean_accuracy([0, 2], n_images=[2, 3])
    True
    """
    common = math.lcm(*n_images)
    return sum(right * (common // size) for right, size in zip(n_correct, n_images, strict=True))


def role_that_counts(roles: Sequence[str]) -> str:
    """Whose mean accuracy the bound maximises: xd, or dg where there is none of that."""
    return "xd" if "xd" in roles else "dg"


def ranked_on_targets(table: pa.Table) -> list[str]:
    """Texts of `transfer` by falling mean accuracy over the targets that count, ties in pool order; without ""."""
    counts = role_that_counts(table["role"].to_pylist())
    by_text: dict[str, list[tuple[int, int]]] = {}
    for line in table.to_pylist():
        if line["text"] and line["role"] == counts:
            by_text.setdefault(line["text"], []).append((line["n_correct"], line["n_images"]))
    means = {
        text: mean_accuracy([right for right, _ in pairs], n_images=[size for _, size in pairs])
        for text, pairs in by_text.items()
    }
    return sorted(means, key=lambda text: -means[text])


def upper_bound(ranked: Sequence[str], *, grid: Grid, m: int) -> list[Member]:
    """Algorithm 1 on the targets' own test images: at most m members, in the order in which they were added.

    Args:
        ranked: descriptors by falling mean accuracy over the targets.
        grid: all datasets; those that do not count are left out of account.
        m: stop with so many members.

    Returns:
        Members whose `n_correct` counts the soup's correct images over the targets that count; none of no descriptors.
    """
    if not ranked:
        return []
    counts = role_that_counts([test.role for test in grid.tests])
    targets = [test for test in grid.tests if test.role == counts]
    sizes = [len(test.labels) for test in targets]

    def measure(sums: Tensor) -> tuple[list[int], list[int]]:
        centroids = normalize(sums)  # (b, S, D)
        by_text = torch.stack(
            [
                correct_per_candidate(test.image_features, test.labels, centroids[:, grid.classes.of(test)]).sum(dim=1)
                for test in targets
            ],
            dim=1,
        ).tolist()  # (b, targets)
        return [mean_accuracy(right, n_images=sizes) for right in by_text], [sum(right) for right in by_text]

    return greedy_soup(ranked, features=grid.blocks, measure=measure, m=m)
