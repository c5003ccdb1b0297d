"""Section `soups`: the kinds of soup and their settings."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from wsoup.params.section import Name, PositiveInt, Section
from wsoup.search.rank.params import Members, Pool, Texts


class AnySoup(Section):
    """Settings of every soup. Code asks the kinds for what differs by kind."""

    walks: ClassVar[bool] = False
    """Whether it goes through the ranking once, text by text."""
    within_k1: ClassVar[str] = "m"
    """The key that must not exceed k1, if it has a k1."""
    kind: str
    pool: Pool
    """Where its texts come from: words or descriptors."""
    m: Members
    """Maximum number of members."""

    @model_validator(mode="after")
    def _within_k1(self) -> AnySoup:
        taken = getattr(self, self.within_k1)
        if self.limit is not None and taken > self.limit:
            raise ValueError(
                f"{self.within_k1} ({taken}) must not exceed k1 ({self.limit}): it is taken from the top k1"
            )
        return self

    @property
    def parts(self) -> int:
        """Number of parts that are searched independently of each other."""
        return 1

    @property
    def limit(self) -> int | None:
        """How many texts of the ranking it may use, its k1; None for all of them."""
        limit: int | None = getattr(self, "k1", None)
        return limit

    @property
    def unranked(self) -> bool:
        """Whether its texts come from the whole pool, whatever their rank."""
        return False

    def shortage(self, candidates: int, *, where: str, otherwise: str) -> str | None:
        """The problem if there are too few candidates, else None.

        Args:
            candidates: number of candidates.
            where: where that number is from, for example "the pool words holds 500".
            otherwise: what to do instead of lowering the key.
        """
        key, required = ("m", self.m) if self.limit is None else ("k1", self.limit)
        if self.walks or required <= candidates:  # of a walk, m is a maximum
            return None
        return f"{key} is {required} but {where}; lower {key}, or {otherwise}"


class GreedySoup(AnySoup):
    """Algorithm 1: the best text of the pool, then each one that makes the centroid better, up to m."""

    walks: ClassVar[bool] = True
    kind: Literal["greedy"]


class TopSoup(AnySoup):
    """The m best single texts by count, or by count and likelihood among the top k1 by count."""

    kind: Literal["top"]
    k1: Texts
    """Texts come from the top k1 of the ranking by count."""
    rank_by: Literal["count", "count_k2"]
    """`count`, or `count_k2`: count plus likelihood (k2), each in standard deviations."""


class SampleSoup(AnySoup):
    """A random sample of the top k1, or of the whole pool if k1 is null: the control that a selection must beat."""

    kind: Literal["sample"]
    k1: Texts | None
    """Texts are drawn from the top k1 of the ranking; null: from the whole pool."""

    @property
    def unranked(self) -> bool:
        """True if k1 is null."""
        return self.k1 is None


class Growth(AnySoup):
    """Growth of word chains, in the paper's symbols: from a word of the top k0, by words of the top k1."""

    within_k1 = "k0"
    k0: Texts
    """First words come from the top k0 of the ranking."""
    k1: Texts
    """Further words come from the top k1, shuffled."""
    patience: Texts
    """How many of those are tried for one chain."""
    max_words: Annotated[PositiveInt, Field(le=1_000)]
    """Maximum number of words in a chain."""


class ChainsSoup(Growth):
    """Algorithm 2: m chains of words, each grown by every word that raises the chain's own count."""

    kind: Literal["chains"]

    @property
    def parts(self) -> int:
        """The chains are independent."""
        return self.m


class JointSoup(Growth):
    """Chains grown as in Algorithm 2, but by words that make the whole soup likelier."""

    kind: Literal["joint"]


SoupParams = GreedySoup | ChainsSoup | TopSoup | SampleSoup | JointSoup
Soups = Annotated[dict[Name, Annotated[SoupParams, Field(discriminator="kind")]], Field(min_length=1)]
"""Section `soups`: definitions by name. `word` and `descriptor` are the paper's; others may be added."""
