"""Sections `candidates` and `score`: the pools and how they are ranked."""

from typing import Annotated, Literal

from pydantic import Field

from wsoup.base.arguments import Flag
from wsoup.params.section import Place, PositiveInt, Section

TextCount = Annotated[PositiveInt, Field(le=1_000_000)]
MemberCount = Annotated[PositiveInt, Field(le=10_000)]
Pool = Literal["words", "descriptors"]


class WordPoolParams(Section):
    """Words: the most common ones of wordfreq (path null), or the first `count` lines of a text file."""

    path: Place | None = None
    """A text file, one word a line; null: the most common English words (wordfreq)."""
    watch: Place | None = None
    """What DVC watches for `path`, here and for finetuning that starts from words: the file itself, or
    data/nothing_to_watch.txt. null: candidates.watch (a dvc.yaml of before 2026-11-23)."""
    count: TextCount
    """Number of words to take, from the top."""
    period: Flag
    """Whether candidates have the prompt's final period while they are ranked and searched."""


class DescriptorPoolParams(Section):
    """Descriptors: text files with one per line, or JSON files of {class: [descriptor, ...]}."""

    paths: list[Place]
    """Text files (one per line) or GPT JSON files {class: [descriptor, ...]}; may be empty."""
    period: Flag
    """Whether candidates have the prompt's final period while they are ranked and searched."""


class CandidatesParams(Section):
    """The two pools of candidates, and whether they have the prompt's final period while ranked and searched.

    Whatever is evaluated has it.
    """

    words: WordPoolParams
    """The pool of words."""
    descriptors: DescriptorPoolParams
    """The pool of descriptors."""
    waffle: Place | None = None
    """A list of Waffle's texts, one a line, to draw from; null: they are made of the pools."""
    watch: Place
    """The file or folder that DVC watches; it must contain all files named by the pools and by gpt_descriptors."""
    on_long_text: Literal["stop", "skip"] = "stop"
    """Whether a text that exceeds the model's context after a class name of the source ends the run or is left out."""

    def period(self, pool: str) -> bool:
        """The setting `period` of one pool."""
        return self.words.period if pool == "words" else self.descriptors.period


class ScoreParams(Section):
    """How the pools are scored."""

    shard_size: TextCount = 500
    """Candidates in one shard of the resume state."""
    likelihood: list[Pool] = Field(default=["words"])
    """Pools with k2, which only soups with `rank_by: count_k2` read; others are counted up to three times as fast."""
