"""Algorithm 1 of arXiv 2311.13612, the descriptor soup, over passed-in features and counts.

Accuracy is an integer count, and a text is added only where the count rises strictly. Candidates are tried in
speculative batches: a whole batch is counted against the soup as it stands, the first one that rises is accepted, and
those after it are counted again against the new soup. The result is that of the one-by-one loop, to the letter,
whatever the batch sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from wsoup.core.errors import PoolError
from wsoup.core.scoring import correct_per_candidate, normalize
from wsoup.soup.member import Member, Step

SMALLEST_BATCH, LARGEST_BATCH = 8, 64
"""Speculative batches start small after an acceptance, when the next one is likely, and double while nothing rises."""

Measure = Callable[[Tensor], tuple[Sequence[float], Sequence[int]]]
"""Sums of member features (B, classes, D) -> for each of the B what must rise, and its correct images."""


def greedy_soup(
    ranked: Sequence[str], *, features: Callable[[Sequence[str]], Iterator[Tensor]], measure: Measure, m: int
) -> list[Member]:
    """Algorithm 1: start with the best descriptor, add each next one that makes the centroid strictly better.

    Args:
        ranked: descriptors by falling accuracy.
        features: texts -> blocks (b, C, D) of their L2-normalised features, in order. Only as many texts as the walk
            needs are asked for.
        measure: what is to rise; `right_on` for the algorithm of the paper.
        m: stop with so many members; the walk may end with fewer.

    Returns:
        At most m members, in the order in which they were added. A longer soup begins with a shorter one.

    Raises:
        PoolError: there are no descriptors.
    """
    if not ranked:
        raise PoolError("the pool is empty: there is nothing to make a soup of")
    members: list[Member] = []
    total, bar, position = torch.zeros(()), float("-inf"), 0
    for block in features(ranked):
        start, batch = 0, SMALLEST_BATCH
        while start < len(block) and len(members) < m:
            tried = block[start : start + (batch if members else 1)]
            values, counts = measure(total + tried)
            risen = next((i for i, value in enumerate(values) if value > bar), None)
            if risen is None:
                start, batch = start + len(tried), min(2 * batch, LARGEST_BATCH)
                continue
            total, bar, n_correct = total + tried[risen], values[risen], counts[risen]
            text = ranked[position + start + risen]
            members.append(Member(text=text, n_correct=n_correct, trace=(Step(text, n_correct),)))
            start, batch = start + risen + 1, SMALLEST_BATCH
        position += len(block)
        if len(members) == m:
            break
    return members


def right_on(image_features: Tensor, labels: Tensor) -> Measure:
    """Measure soups by the images (N, D) with labels (N,) that their centroids get right."""

    def measure(sums: Tensor) -> tuple[Sequence[int], Sequence[int]]:
        # A mean is its sum once normalised.
        counts = correct_per_candidate(image_features, labels, normalize(sums)).sum(dim=1).tolist()
        return counts, counts

    return measure
