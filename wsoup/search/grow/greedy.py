"""Algorithm 1 of arXiv 2311.13612, the descriptor soup. Features and counts are passed in.

Accuracy is an integer count, and a text is added only if the count rises strictly. Candidates are tried in speculative
batches: a whole batch is counted against the present soup, the first candidate that raises the count is accepted, and
those after it are counted again against the new soup. The result is exactly that of the one-by-one loop, whatever the
batch sizes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from wsoup.base.errors import PoolError
from wsoup.core.scoring import correct_per_candidate, normalize
from wsoup.soup.member import Member, Step

BATCHES = (8, 64)
"""First and largest speculative batch: small after an acceptance, when another is likely, then doubling."""

Candidates = TypeVar("Candidates", Sequence[str], Tensor)
Measure = Callable[[Tensor], tuple[Sequence[float], Sequence[int]]]
"""Sums of member features (B, C, D) -> the value that must rise, and the number of correct images, of each."""


class Judgement(NamedTuple):
    """What a candidate would do: the value that must rise, correct images, and its features (C, D), for a soup."""

    value: float
    n_correct: int
    features: Tensor | None = None


def greedy_soup(
    ranked: Sequence[str], *, features: Callable[[Sequence[str]], Iterator[Tensor]], measure: Measure, m: int
) -> list[Member]:
    """Algorithm 1: start with the best descriptor, then add each one that makes the centroid strictly better.

    Args:
        ranked: descriptors by falling accuracy.
        features: texts -> blocks (b, C, D) of L2-normalised features, in order; consumed only as far as needed.
        measure: the objective; `right_on` for the paper's algorithm.
        m: maximum number of members.

    Returns:
        At most m members, in the order in which they were added. A longer soup starts with a shorter one.

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
            judge = partial(judged_beside, total, measure=measure)
            rise = next_rise(block, start=start, bar=bar, judge=judge, batches=BATCHES if members else (1, 1))
            if rise is None:
                break
            index, (bar, n_correct, _) = rise
            total, start, text = total + block[index], index + 1, ranked[position + index]
            members.append(Member(text=text, n_correct=n_correct, trace=(Step(text, n_correct),)))
        position += len(block)
        if len(members) == m:
            break
    return members


def judged_beside(total: Tensor, block: Tensor, *, measure: Measure) -> Iterable[Judgement]:
    """Candidates (b, C, D) as additions to a soup whose features sum to `total`."""
    values, counts = measure(total + block)
    return map(Judgement, values, counts, block)


def next_rise(
    candidates: Candidates,
    *,
    start: int = 0,
    bar: float,
    judge: Callable[[Candidates], Iterable[Judgement]],
    batches: tuple[int, int] = BATCHES,
) -> tuple[int, Judgement] | None:
    """The first of the candidates, from `start` on, that is judged above the bar: its index and judgement, or None.

    Args:
        candidates: texts, or features (n, C, D).
        start: index of the first candidate to try.
        bar: value that a judgement must exceed.
        judge: some of the candidates -> their judgements; called batch by batch.
        batches: size of the first batch, and of the largest; they affect speed only.
    """
    size, largest = batches
    while start < len(candidates):
        for index, judgement in enumerate(judge(candidates[start : start + size]), start=start):
            if judgement.value > bar:
                return index, judgement
        start, size = start + size, min(2 * size, largest)
    return None


def right_on(image_features: Tensor, labels: Tensor) -> Measure:
    """Measure soups by how many images (N, D) with labels (N,) their centroids get right."""

    def measure(sums: Tensor) -> tuple[Sequence[int], Sequence[int]]:
        # Normalised, a sum equals the mean.
        counts = correct_per_candidate(image_features, labels, normalize(sums)).sum(dim=1).tolist()
        return counts, counts

    return measure
