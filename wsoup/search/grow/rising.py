"""The rule of growth: of candidates in order, each one is accepted that raises a value strictly.

Candidates are judged in speculative batches: a whole batch against what is there now, the first one that raises the
value is accepted, and those after it are judged again. The result is exactly that of the one-by-one loop, whatever the
batch sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from wsoup.search.grow.measures import Measure

if TYPE_CHECKING:
    from torch import Tensor

BATCHES = (8, 64)
"""First and largest speculative batch: small after an acceptance, when another is likely, then doubling."""
NO_BAR = float("-inf")

Candidates = TypeVar("Candidates", "Sequence[str]", "Tensor")


class Judgement(NamedTuple):
    """What a candidate would do: the value that must rise, correct images, and its features (C, D), for a soup."""

    value: float
    n_correct: int
    features: Tensor | None = None


def rises(
    candidates: Candidates,
    *,
    judge: Callable[[Candidates], Iterable[Judgement]],
    bar: float = NO_BAR,
    batches: tuple[int, int] = BATCHES,
) -> Iterator[tuple[int, Judgement]]:
    """The candidates that are accepted, each with its judgement, which is the bar of those after it.

    Args:
        candidates: texts, or features (n, C, D).
        judge: some of the candidates -> their judgements beside what is accepted so far; called batch by batch.
        bar: value that the first one must exceed; without a bar, the first candidate is accepted.
        batches: size of the first batch, and of the largest; they affect speed only.

    Yields:
        The index of an accepted candidate, and its judgement. The caller adds it before asking for the next.
    """
    smallest, largest = batches
    size = smallest
    start = 0
    while start < len(candidates):
        # Without a bar the first candidate is accepted, so that judging more of them would be in vain.
        stop = start + 1 if bar == NO_BAR else start + size
        batch = candidates[start:stop]
        for index, judgement in enumerate(judge(batch), start=start):
            if judgement.value > bar:
                yield index, judgement
                bar = judgement.value
                start = index + 1  # those after it are judged again, beside it
                size = smallest
                break
        else:
            start += len(batch)
            size = min(2 * size, largest)


def judged_beside(total: Tensor | int, block: Tensor, *, measure: Measure) -> Iterable[Judgement]:
    """Candidates (b, C, D) as additions to a soup whose features sum to `total`."""
    values, counts = measure(total + block)
    return map(Judgement, values, counts, block)
