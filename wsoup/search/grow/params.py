"""Section `soups`: the kinds of soup and their settings."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from wsoup.params.section import Name, PositiveInt, Section
from wsoup.search.rank.params import Members, Pool, Texts


class AnySoup(Section):
    """Settings of every soup. Code asks the kinds for what differs by kind."""

    within_k1: ClassVar[str] = ""
    """The key, if any, that must not exceed k1."""
    walks: ClassVar[bool] = False
    """Whether it goes through the ranking once, text by text."""
    kind: str
    pool: Pool
    """Where its texts come from: words or descriptors."""
    m: Members
    """Maximum number of members."""
    class_name_weight: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    """Weight of the bare class name in the centroid, in members."""

    @model_validator(mode="after")
    def _within_k1(self) -> AnySoup:
        taken, k1 = getattr(self, self.within_k1, 0), getattr(self, "k1", None)
        if k1 is not None and taken > k1:
            raise ValueError(f"{self.within_k1} ({taken}) must not exceed k1 ({k1}): it is taken from the top k1")
        return self

    @property
    def parts(self) -> int:
        """Number of parts that are searched independently of each other."""
        return 1

    @property
    def limit(self) -> tuple[str, int] | None:
        """How much of the ranking its texts come from, (k1 or k0, number); None for all of it."""
        limits = ((key, getattr(self, key, None)) for key in ("k1", "k0"))
        return next(((key, size) for key, size in limits if size is not None), None)

    @property
    def required(self) -> tuple[str, int] | None:
        """How many candidates there must be, and the key that determines it; None for any number."""
        return self.limit or ("m", self.m)

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
        if self.required is None or self.required[1] <= candidates:
            return None
        key, required = self.required
        return f"{key} is {required} but {where}; lower {key}, or {otherwise}"


class GreedySoup(AnySoup):
    """Algorithm 1: the best text of the pool, then each one that makes the centroid better, up to m."""

    walks: ClassVar[bool] = True
    kind: Literal["greedy"]

    @property
    def required(self) -> None:
        """Any number, since m is a maximum."""
        return None


class TopSoup(AnySoup):
    """The m best single texts by count, or by count and likelihood among the top k1 by count."""

    within_k1 = "m"
    kind: Literal["top"]
    k1: Texts
    """Texts come from the top k1 of the ranking by count."""
    rank_by: Literal["count", "count_k2"]
    """`count`, or `count_k2`: count plus likelihood (k2), each in standard deviations."""


class SampleSoup(AnySoup):
    """A random sample of the top k1, or of the whole pool if k1 is null: the control that a selection must beat."""

    within_k1 = "m"
    kind: Literal["sample"]
    k1: Texts | None
    """Texts are drawn from the top k1 of the ranking; null: from the whole pool."""

    @property
    def unranked(self) -> bool:
        """True if k1 is null."""
        return self.k1 is None


class FirstWordsSoup(AnySoup):
    """The first words of Algorithm 2's chains, drawn from the top k0: a control."""

    kind: Literal["first_words"]
    k0: Texts
    """Words come from the top k0 of the ranking."""


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

    @property
    def parts(self) -> int:
        """The chains are independent."""
        return self.m

    @property
    def growth(self) -> dict[str, Any]:
        """The settings by name."""
        return self.model_dump(include={"k0", "k1", "patience", "max_words"})


class ChainsSoup(Growth):
    """Algorithm 2: m chains of words, each grown by every word that raises the chain's own count."""

    kind: Literal["chains"]


class RandomLengthsSoup(Growth):
    """A control with Algorithm 2's first words and lengths, but random further words. It costs as much."""

    kind: Literal["random_lengths"]


class JointSoup(Growth):
    """Chains grown as in Algorithm 2, but by words that make the whole soup likelier."""

    kind: Literal["joint"]

    @property
    def parts(self) -> int:
        """One, since each chain depends on those before it."""
        return 1


SoupParams = GreedySoup | ChainsSoup | TopSoup | SampleSoup | FirstWordsSoup | RandomLengthsSoup | JointSoup
Soups = Annotated[dict[Name, Annotated[SoupParams, Field(discriminator="kind")]], Field(min_length=1)]
"""Section `soups`: definitions by name. `word` and `descriptor` are the paper's; others may be added."""
