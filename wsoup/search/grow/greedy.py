"""Algorithm 1 of arXiv 2311.13612, the descriptor soup: the integer count of correct images must rise strictly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from wsoup.base.errors import PoolError
from wsoup.core.member import Member, Step
from wsoup.search.grow.kind import AnySoup
from wsoup.search.grow.measures import Measure, counted_together, right_on
from wsoup.search.grow.rising import NO_BAR, Judgement, judged_beside, rises

if TYPE_CHECKING:
    from torch import Tensor

    from wsoup.search.rank.meter import Meter
    from wsoup.search.rank.ranking import Ranked


class GreedySoup(AnySoup):
    """Algorithm 1: the best text of the pool, then each one that makes the centroid better, up to m."""

    walks: ClassVar[bool] = True
    kind: Literal["greedy"]

    def members(self, ranked: Ranked, meter: Meter, *, part: int) -> list[Member]:
        """The whole soup."""
        return greedy_soup(ranked.texts, features=meter.blocks, measure=self.measure(meter), m=self.m)

    def final_counts(self, texts: Sequence[str], meter: Meter) -> list[int]:
        """Of the soup up to each member."""
        return counted_together(texts, meter, measure=self.measure(meter))

    def measure(self, meter: Meter) -> Measure:
        """The paper's objective."""
        return right_on(*meter.images)


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
    total: Tensor | int = 0
    bar = NO_BAR
    position = 0  # of the block's first text in the ranking

    def judge(some: Tensor) -> Iterable[Judgement]:
        return judged_beside(total, some, measure=measure)

    for block in features(ranked):
        # The bar goes on from block to block: where one ends is only a matter of memory.
        for index, judged in rises(block, judge=judge, bar=bar):
            total = total + block[index]
            bar = judged.value
            text = ranked[position + index]
            step = Step(text, judged.n_correct)
            members.append(Member(text=text, n_correct=judged.n_correct, trace=(step,)))
            if len(members) == m:
                return members
        position += len(block)
    return members
