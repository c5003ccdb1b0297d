"""What the kinds of soup share: their settings in section `soups`, and what code asks of a kind.

A kind is one module beside this one, with its settings, its algorithm, and how its members are counted: alone, or
together by its measure (`measures`). Stage `soup@<name>` depends on what the module of its kind means, so a new kind
runs no soup again, and an edited one those of its kind and of kinds that search by it, as `held_out` does by `greedy`;
an edit of this module runs every soup. `wsoup.search.grow.all_kinds` lists the kinds; no stage depends on it.

No module here imports torch when it is loaded, since params.yaml is also read where nothing is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, model_validator

from wsoup.core.draws import member_generator
from wsoup.params.section import Name, PositiveInt, Section
from wsoup.search.pools.params import MemberCount, TextCount

if TYPE_CHECKING:
    from wsoup.core.member import Member
    from wsoup.search.rank.meter import Meter
    from wsoup.search.rank.ranking import Ranked


TEMPLATES_IN_CHAINS = (
    "its pool holds templates, and a template is a whole prompt that no word can follow; "
    "use another kind, such as greedy"
)


class AnySoup(Section):
    """Settings of every soup. Code asks the kinds for what differs by kind."""

    walks: ClassVar[bool] = False
    """Whether it goes through the ranking once, text by text."""
    finished: ClassVar[bool] = False
    """Whether it searches with the final period, as texts are evaluated, also where its pool is ranked without."""
    joins: ClassVar[bool] = False
    """Whether a member is several texts of its pool one after the other, which templates cannot be."""
    within_k1: ClassVar[str] = "m"
    """The key that must not exceed k1, if it has a k1."""
    kind: str
    pool: Name
    """Where its texts come from: words, descriptors, or another of candidates.pools."""
    m: MemberCount
    """Maximum number of members."""

    @model_validator(mode="after")
    def _within_k1(self) -> AnySoup:
        taken = getattr(self, self.within_k1)
        if self.limit is not None and taken > self.limit:
            raise ValueError(
                f"{self.within_k1} ({taken}) must not exceed k1 ({self.limit}): it is taken from the top k1; lower it"
            )
        return self

    def members(self, ranked: Ranked, meter: Meter, *, part: int) -> list[Member]:
        """Search the members of one part.

        Args:
            ranked: the candidates, at most `limit`, by falling count.
            meter: features and counts of texts on the images of one seed.
            part: its number, below `parts`.
        """
        raise NotImplementedError

    def final_counts(self, texts: Sequence[str], meter: Meter) -> list[int]:
        """The counts of finished members: `counted_alone`, or `counted_together` if the search judged soups."""
        raise NotImplementedError

    @property
    def reads_k2(self) -> bool:
        """Whether it uses column k2 of the ranking, whose last bits depend on the images of the other seeds; a search
        that computes likelihoods itself does not."""
        return False

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
        return self.limit is None and not self.walks

    def shortage(self, candidates: int) -> str | None:
        """The problem if its pool has too few candidates, else None."""
        key = "m" if self.limit is None else "k1"
        required = getattr(self, key)
        if self.walks or required <= candidates:  # of a walk, m is a maximum
            return None
        return f"{key} is {required} but the pool {self.pool} holds {candidates}; lower {key}, or give more texts"


def counted_alone(texts: Sequence[str], meter: Meter) -> list[int]:
    """Correct images of each text by itself."""
    counts: list[int] = meter.count(texts).tolist()
    return counts


class Growth(AnySoup):
    """Growth of word chains, in the paper's symbols: from a word of the top k0, by words of the top k1."""

    joins: ClassVar[bool] = True
    within_k1 = "k0"
    k0: TextCount
    """First words come from the top k0 of the ranking."""
    k1: TextCount
    """Further words come from the top k1, shuffled."""
    patience: TextCount
    """How many of those are tried for one chain."""
    max_words: Annotated[PositiveInt, Field(le=1_000)]
    """Maximum number of words in a chain."""

    def draw(self, ranked: Sequence[str], *, member: int, seed: int) -> list[str]:
        """The words of one chain: a first word from the top k0, then the words to try, `patience` of the top k1.

        There must be at least k1 words. Every member has its own generator, so a soup of 16 starts with the soup of 8.
        """
        generator = member_generator(purpose="word_soup", seed=seed, member=member)
        first = ranked[int(generator.integers(self.k0))]
        # All k1 are shuffled, whatever the patience: a longer one tries the same words first.
        shuffled = generator.permutation(self.k1)
        return [first, *(ranked[i] for i in shuffled[: self.patience])]
