"""Sections `candidates`, `score` and `soups`: the pools, how they are scored, and what is made of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from wsoup.params.section import Name, PositiveInt, Section

Pool = Literal["words", "descriptors"]


class WordPoolParams(Section):
    """Words: the most common ones of wordfreq (path null), or the first `count` lines of a text file."""

    path: str | None = None
    """A text file, one word a line; null: the most common English words (wordfreq)."""
    count: PositiveInt
    """How many words are taken, from the top."""
    period: bool
    """Whether a candidate carries the prompt's final period while it is ranked and searched."""


class DescriptorPoolParams(Section):
    """Descriptors: one a line in a text file, or JSON files of {class: [descriptor, ...]}."""

    paths: Annotated[list[str], Field(min_length=1)]
    """Text files (one a line), or GPT JSON files {class: [descriptor, ...]}."""
    period: bool
    """Whether a candidate carries the prompt's final period while it is ranked and searched."""


class CandidatesParams(Section):
    """The two pools. `period`: whether a candidate carries the prompt's final period while it is ranked and searched.

    What is evaluated always carries it.
    """

    words: WordPoolParams
    """The pool of words."""
    descriptors: DescriptorPoolParams
    """The pool of descriptors."""
    watch: str
    """What DVC watches: the one file that the pools and datasets' gpt_descriptors name, or a folder with all."""

    def period(self, pool: str) -> bool:
        """`period` of one pool."""
        return self.words.period if pool == "words" else self.descriptors.period


class ScoreParams(Section):
    """How the pools are scored: candidates in one shard of the resume state."""

    shard_size: PositiveInt
    """Candidates in one shard of the resume cache."""


class GreedySoup(Section):
    """Algorithm 1: the best text of the pool, then each next one that makes the centroid better, up to m."""

    kind: Literal["greedy"]
    pool: Pool
    """words or descriptors."""
    m: PositiveInt
    """Members at most."""


class ChainsSoup(Section):
    """Algorithm 2, in the paper's symbols: m chains of words, each grown from a word of the top k0."""

    kind: Literal["chains"]
    pool: Pool
    """words or descriptors."""
    k0: PositiveInt
    """First words come from the top k0 of the ranking."""
    k1: PositiveInt
    """Further words from the top k1, shuffled."""
    patience: PositiveInt
    """How many of those are tried for one chain."""
    m: PositiveInt
    """Members (chains)."""
    max_words: PositiveInt
    """Words in one chain at most."""

    @model_validator(mode="after")
    def _k0_within_k1(self) -> ChainsSoup:
        if self.k0 > self.k1:
            raise ValueError(f"k0 ({self.k0}) must not exceed k1 ({self.k1}): first words come from the top k0 of k1")
        return self


SoupParams = GreedySoup | ChainsSoup
Soups = Annotated[dict[Name, Annotated[SoupParams, Field(discriminator="kind")]], Field(min_length=1)]
"""Section `soups`: definitions by name. `word` and `descriptor` are the paper's; any number may stand beside them."""
