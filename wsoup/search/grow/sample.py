"""A random sample of a ranking: the control that any selection must beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from wsoup.base.errors import PoolError
from wsoup.core.draws import member_generator
from wsoup.core.member import Member
from wsoup.search.grow.kind import AnySoup, counted_alone
from wsoup.search.pools.params import TextCount

if TYPE_CHECKING:
    from wsoup.search.rank.meter import Meter
    from wsoup.search.rank.ranking import Ranked


class SampleSoup(AnySoup):
    """A random sample of the top k1, or of the whole pool if k1 is null: the control that a selection must beat."""

    kind: Literal["sample"]
    k1: TextCount | None
    """Texts are drawn from the top k1 of the ranking; null: from the whole pool."""

    def members(self, ranked: Ranked, meter: Meter, *, part: int) -> list[Member]:
        """The whole soup."""
        if self.k1 is None:
            return ranked.singles(drawn_from(ranked.texts, m=self.m, seed=meter.seed))
        return ranked.singles(drawn(len(ranked.texts), m=self.m, seed=meter.seed))

    def final_counts(self, texts: Sequence[str], meter: Meter) -> list[int]:
        """Of each text alone."""
        return counted_alone(texts, meter)


def drawn_from(texts: Sequence[str], *, m: int, seed: int) -> list[int]:
    """Indices of m texts of a whole pool: the same texts in whatever order it is, so that nobody needs to rank it.

    Raises:
        PoolError: there are fewer than m.
    """
    alphabetical = sorted(range(len(texts)), key=texts.__getitem__)
    return [alphabetical[i] for i in drawn(len(texts), m=m, seed=seed)]


def drawn(n_texts: int, *, m: int, seed: int) -> list[int]:
    """Indices of m texts, drawn without replacement. A draw of 16 starts with that of 8.

    Raises:
        PoolError: there are fewer than m.
    """
    if n_texts < m:
        raise PoolError(f"cannot sample {m} of {n_texts} texts; lower m or add texts")
    generator = member_generator(purpose="sample", seed=seed, member=0)
    order = generator.permutation(n_texts)
    return [int(i) for i in order[:m]]
