"""Sections `candidates` and `score`: the pools, and how they are ranked."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from wsoup.core.arguments import Flag
from wsoup.core.params.section import Place, PositiveInt, Section

Texts = Annotated[PositiveInt, Field(le=1_000_000)]
Members = Annotated[PositiveInt, Field(le=10_000)]
Pool = Literal["words", "descriptors", "mixed"]


class WordPoolParams(Section):
    """Words: the most common ones of wordfreq (path null), or the first `count` lines of a text file."""

    path: Place | None = None
    """A text file, one word a line; null: the most common English words (wordfreq)."""
    count: Texts
    """How many words are taken, from the top."""
    period: Flag
    """Whether a candidate carries the prompt's final period while it is ranked and searched."""


class DescriptorPoolParams(Section):
    """Descriptors: one a line in a text file, or JSON files of {class: [descriptor, ...]}."""

    paths: list[Place]
    """Text files (one a line), or GPT JSON files {class: [descriptor, ...]}; none: no descriptors."""
    period: Flag
    """Whether a candidate carries the prompt's final period while it is ranked and searched."""


class CandidatesParams(Section):
    """The two pools. `period`: whether a candidate carries the prompt's final period while it is ranked and searched.

    What is evaluated always carries it.
    """

    words: WordPoolParams
    """The pool of words."""
    descriptors: DescriptorPoolParams
    """The pool of descriptors."""
    watch: Place
    """What DVC watches: the one file that the pools and datasets' gpt_descriptors name, or a folder with all."""
    on_long_text: Literal["stop", "skip"] = "stop"
    """A text that does not fit the model's context behind a class name of the source ends the run, or is in no pool."""

    def period(self, pool: str) -> bool:
        """`period` of one pool."""
        return self.words.period if pool == "words" else self.descriptors.period


class RacingRound(Section):
    """Candidates on some of the classes, of which the best stay."""

    classes: Annotated[float, Field(gt=0, lt=1)]
    """Share of the classes that this round scores, two at least; it costs so much of the whole ranking a candidate."""
    keep: Texts
    """How many candidates go on to the next round; behind the last one of these all classes are scored."""


def _narrowing(race: tuple[RacingRound, ...]) -> tuple[RacingRound, ...]:
    for before, after in pairwise(race):
        if after.classes <= before.classes or after.keep >= before.keep:
            raise ValueError("each round must have more classes than the one before it, and keep fewer candidates")
    return race


Race = Annotated[tuple[RacingRound, ...], Field(max_length=8), AfterValidator(_narrowing)]


class RacingParams(Section):
    """Rounds of a race for each pool; none: every candidate is scored on all classes."""

    words: Race = ()
    """Rounds for the pool of words."""
    descriptors: Race = ()
    """Rounds for the pool of descriptors."""


class ScoreParams(Section):
    """How the pools are scored: candidates in one shard of the resume state, and whether they race."""

    shard_size: Texts
    """Candidates in one shard of the resume cache."""
    racing: RacingParams = RacingParams()
    """Ranking at a part of the cost: rounds on few classes first (wsoup/search/rank/racing.py); none: no race."""

    def race(self, pool: str) -> tuple[RacingRound, ...]:
        """The rounds of one pool."""
        return self.racing.words if pool == "words" else self.racing.descriptors
