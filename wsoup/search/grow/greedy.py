"""Algorithm 1 of arXiv 2311.13612, the descriptor soup, over passed-in features and counts.

Accuracy is an integer count, and a text is added only where the count rises strictly. Candidates are tried in
speculative batches: a whole batch is counted against the soup as it stands, the first one that rises is accepted, and
those after it are counted again against the new soup. The result is that of the one-by-one loop, to the letter,
whatever the batch sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from wsoup.core.errors import PoolError
from wsoup.core.scoring import correct_per_candidate, normalize
from wsoup.soup.member import Member, Step

BATCHES = (8, 64)
"""Speculative batches start small after an acceptance, when the next one is likely, and double while nothing rises."""

Judgement = tuple[Any, ...]
"""Of a candidate: what must rise, and whatever else its acceptance needs."""
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
        start = 0
        while len(members) < m:
            judge = _beside(total, block, measure=measure)
            rise = next_rise(len(block), start=start, bar=bar, judge=judge, batches=BATCHES if members else (1, 1))
            if rise is None:
                break
            place, (bar, n_correct, added) = rise
            total, start, text = total + added, place + 1, ranked[position + place]
            members.append(Member(text=text, n_correct=n_correct, trace=(Step(text, n_correct),)))
        position += len(block)
        if len(members) == m:
            break
    return members


def _beside(total: Tensor, block: Tensor, *, measure: Measure) -> Callable[[slice], Iterable[Judgement]]:
    """Judge candidates of a block (b, C, D) as further members of a soup whose features sum to `total`."""

    def judge(tried: slice) -> Iterable[Judgement]:
        values, counts = measure(total + block[tried])
        return zip(values, counts, block[tried], strict=True)

    return judge


def next_rise(
    n: int,
    *,
    start: int,
    bar: float,
    judge: Callable[[slice], Iterable[Judgement]],
    batches: tuple[int, int] = BATCHES,
) -> tuple[int, Judgement] | None:
    """The first of n candidates, from `start` on, that is judged above the bar: its place and judgement, or None.

    Args:
        n: how many candidates there are.
        start: those before it are passed over.
        bar: what a judgement must begin with more than.
        judge: some candidates -> their judgements; asked for one batch after the other.
        batches: size of the first one, and of the largest.
    """
    size, largest = batches
    while start < n:
        tried = slice(start, min(start + size, n))
        for place, judgement in enumerate(judge(tried), start=start):
            if judgement[0] > bar:
                return place, judgement
        start, size = tried.stop, min(2 * size, largest)
    return None


def right_on(image_features: Tensor, labels: Tensor) -> Measure:
    """Measure soups by the images (N, D) with labels (N,) that their centroids get right."""

    def measure(sums: Tensor) -> tuple[Sequence[int], Sequence[int]]:
        # A mean is its sum once normalised.
        counts = correct_per_candidate(image_features, labels, normalize(sums)).sum(dim=1).tolist()
        return counts, counts

    return measure
