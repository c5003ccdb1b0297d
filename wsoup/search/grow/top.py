"""The best single texts of a ranking. Source: this project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from wsoup.core.member import Member
from wsoup.search.grow.kind import AnySoup, counted_alone
from wsoup.search.pools.params import TextCount

if TYPE_CHECKING:
    from wsoup.search.rank.meter import Meter
    from wsoup.search.rank.ranking import Ranked


class TopSoup(AnySoup):
    """The m best single texts by count, or by count and likelihood among the top k1 by count."""

    kind: Literal["top"]
    k1: TextCount
    """Texts come from the top k1 of the ranking by count."""
    rank_by: Literal["count", "count_k2"]
    """`count`, or `count_k2`: count plus likelihood (k2), each in standard deviations."""

    @property
    def reads_k2(self) -> bool:
        """With ``count_k2``."""
        return self.rank_by == "count_k2"

    def members(self, ranked: Ranked, meter: Meter, *, part: int) -> list[Member]:
        """The whole soup; ties keep the order of the ranking.

        With ``count_k2``, by z(n_correct) + z(k2), where z(x) = (x - mean x) / std x over the candidates, and 0 if all
        are equal: a count over few images is coarse, and k2 measures how confident it is.
        """
        if self.rank_by == "count":
            return ranked.singles(range(self.m))
        value = standardised(ranked.n_correct) + standardised(ranked.log_likelihood)
        order = np.argsort(-value, kind="stable")
        return ranked.singles(order[: self.m].tolist())

    def final_counts(self, texts: Sequence[str], meter: Meter) -> list[int]:
        """Of each text alone."""
        return counted_alone(texts, meter)


def standardised(values: np.ndarray) -> np.ndarray:
    """Mean 0 and standard deviation 1 (with n, not n - 1); zeros if all are equal."""
    centred = values - values.mean(dtype=np.float64)
    spread = centred.std()
    if spread == 0:
        return np.zeros_like(centred)
    return centred / spread
