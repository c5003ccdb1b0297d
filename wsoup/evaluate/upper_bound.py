"""The upper bound: the descriptor soup that the targets themselves would select.

It is Algorithm 1 on the mean accuracy over the cross-dataset test sets (XD), as in the paper, or over the shifts (DG)
if a run has no XD. No method may use test labels, so it is an upper bound rather than a result, and always marked as
such.
"""

import math
from collections.abc import Sequence

import pyarrow as pa
import torch
from torch import Tensor

from wsoup.core.class_texts import ClassTexts
from wsoup.core.member import Member
from wsoup.evaluate.testsets import TestSet, count_right
from wsoup.evaluate.transfer import Grid
from wsoup.search.grow.greedy import greedy_soup


def mean_accuracy(n_correct: Sequence[int], *, n_images: Sequence[int]) -> int:
    """Mean accuracy over datasets as an exactly comparable integer, on a scale set by `n_images`.

    >>> mean_accuracy([1, 1], n_images=[2, 3]) > mean_accuracy([0, 2], n_images=[2, 3])
    True
    """
    # A sum of fractions would round, and two equal means could differ.
    common = math.lcm(*n_images)
    total = 0
    for correct, size in zip(n_correct, n_images, strict=True):
        total += correct * (common // size)
    return total


def ranked_on(targets: Sequence[TestSet], table: pa.Table) -> list[str]:
    """Texts of `transfer` except "" by falling mean accuracy over some datasets; ties keep pool order."""
    sizes = {test.name: len(test.labels) for test in targets}
    counts: dict[str, list[int]] = {}
    for line in table.to_pylist():
        if line["text"] and line["dataset"] in sizes:
            counts.setdefault(line["text"], []).append(line["n_correct"])
    n_images = list(sizes.values())
    return sorted(counts, key=lambda text: -mean_accuracy(counts[text], n_images=n_images))


def upper_bound(table: pa.Table, *, grid: Grid, m: int) -> list[Member]:
    """Algorithm 1 on the targets' own test images: those of role xd, or of dg if there is no xd.

    Args:
        table: every text of the grid alone (`transfer`).
        grid: descriptors and all datasets.
        m: maximum number of members.

    Returns:
        Members in the order in which they were added; `n_correct` is the soup's count over the targets.
    """
    targets = [test for test in grid.tests if test.role == "xd"]
    if not targets:
        targets = [test for test in grid.tests if test.role == "dg"]
    ranked = ranked_on(targets, table)
    # A run without targets, or without descriptors, has no bound.
    if not ranked:
        return []
    sizes = [len(test.labels) for test in targets]

    def measure(sums: Tensor) -> tuple[list[int], list[int]]:
        centroids = ClassTexts(sums).centroids  # (b, S, D)
        by_target = [count_right(test, centroids[:, grid.classes.of(test)]) for test in targets]
        by_text = torch.stack(by_target, dim=1).tolist()  # (b, targets)
        means = [mean_accuracy(counts, n_images=sizes) for counts in by_text]
        totals = [sum(counts) for counts in by_text]
        return means, totals

    return greedy_soup(ranked, features=grid.blocks, measure=measure, m=m)
