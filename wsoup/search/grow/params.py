"""Section `soups`: the kinds of soup, and what each is told."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from wsoup.core.params.section import Name, PositiveInt, Section
from wsoup.search.rank.params import Members, Pool, Texts


class AnySoup(Section):
    """What every soup says of itself. What differs by kind is told here and in the kinds, and asked of them."""

    within_k1: ClassVar[str] = ""
    """The key, if any, that must not exceed k1."""
    walks: ClassVar[bool] = False
    """Whether the ranking is gone through once, text by text."""
    kind: str
    pool: Pool
    """Where its texts come from: words, descriptors, or mixed, both in one ranking."""
    m: Members
    """Members, at most."""
    class_name_weight: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    """The class name without a text joins the centroid as if it were so many members."""

    @model_validator(mode="after")
    def _within_k1(self) -> AnySoup:
        few, most = getattr(self, self.within_k1, 0), getattr(self, "k1", None)
        if most is not None and few > most:
            raise ValueError(f"{self.within_k1} ({few}) must not exceed k1 ({most}): it is taken from the top k1")
        return self

    @property
    def parts(self) -> int:
        """Into how many parts the soup falls that are made independently of each other."""
        return 1

    @property
    def limit(self) -> tuple[str, int] | None:
        """Its texts come from so many, the first of the ranking: (k1 or k0, how many); None: it may be any."""
        limits = ((key, getattr(self, key, None)) for key in ("k1", "k0"))
        return next(((key, most) for key, most in limits if most is not None), None)

    @property
    def wanted(self) -> tuple[str, int] | None:
        """How many candidates there must be, and the key that says so; None: any number will do."""
        return self.limit or ("m", self.m)

    @property
    def unranked(self) -> bool:
        """Whether its texts come from the whole pool, whatever their rank."""
        return False

    def shortage(self, candidates: int, *, where: str, otherwise: str) -> str | None:
        """What is wrong where there are too few candidates; None where there are enough.

        Args:
            candidates: so many there are.
            where: what says so, for example "the pool words holds 500".
            otherwise: what to do instead of lowering the key.
        """
        if self.wanted is None or self.wanted[1] <= candidates:
            return None
        key, wanted = self.wanted
        return f"{key} is {wanted} but {where}; lower {key}, or {otherwise}"


class GreedySoup(AnySoup):
    """Algorithm 1: the best text of the pool, then each next one that makes the centroid better, up to m."""

    walks: ClassVar[bool] = True
    kind: Literal["greedy"]

    @property
    def wanted(self) -> None:
        """Any number: m is at most."""
        return None


class TopSoup(AnySoup):
    """The m best single texts: by count, or of the top k1 by count those with the best count and likelihood."""

    within_k1 = "m"
    kind: Literal["top"]
    k1: Texts
    """Texts come from the top k1 of the ranking by count."""
    rank_by: Literal["count", "count_k2"]
    """By the count alone, or by count and likelihood (k2), each in standard deviations."""


class SampleSoup(AnySoup):
    """Any m of the top k1, or of the whole pool where k1 is null: the control that a selection must beat."""

    within_k1 = "m"
    kind: Literal["sample"]
    k1: Texts | None
    """Texts are drawn from the top k1 of the ranking; null: from the whole pool."""

    @property
    def unranked(self) -> bool:
        """Where k1 is null."""
        return self.k1 is None


class FirstWordsSoup(AnySoup):
    """The first words of Algorithm 2's chains, which are any of the top k0: a control."""

    kind: Literal["first_words"]
    k0: Texts
    """Words come from the top k0 of the ranking."""


class Growth(AnySoup):
    """How chains of words grow, in the paper's symbols: from a word of the top k0, by words of the top k1."""

    within_k1 = "k0"
    k0: Texts
    """First words come from the top k0 of the ranking."""
    k1: Texts
    """Further words from the top k1, shuffled."""
    patience: Texts
    """How many of those are tried for one chain."""
    max_words: Annotated[PositiveInt, Field(le=1_000)]
    """Words in one chain at most."""

    @property
    def parts(self) -> int:
        """The chains."""
        return self.m


class ChainsSoup(Growth):
    """Algorithm 2: m chains of words, each grown from a word of the top k0 where the chain's own count rises."""

    kind: Literal["chains"]


class RandomLengthsSoup(Growth):
    """Algorithm 2's first words and lengths, all further words drawn: a control. It costs what Algorithm 2 costs."""

    kind: Literal["random_lengths"]


class JointSoup(Growth):
    """Chains grown as in Algorithm 2, but where the whole soup gets likelier."""

    kind: Literal["joint"]

    @property
    def parts(self) -> int:
        """One: each chain is judged beside those before it."""
        return 1


SoupParams = GreedySoup | ChainsSoup | TopSoup | SampleSoup | FirstWordsSoup | RandomLengthsSoup | JointSoup
Soups = Annotated[dict[Name, Annotated[SoupParams, Field(discriminator="kind")]], Field(min_length=1)]
"""Section `soups`: definitions by name. `word` and `descriptor` are the paper's; any number may stand beside them."""
