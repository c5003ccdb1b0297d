"""Sections `candidates` and `score`, and the two soups: what is searched, and how."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from wsoup.params.section import PositiveInt, Section


class WordPoolParams(Section):
    """Words: the most common ones of wordfreq (path null), or the first `count` lines of a text file."""

    path: str | None = None
    count: PositiveInt


class DescriptorPoolParams(Section):
    """Descriptors: one a line in a text file, or JSON files of {class: [descriptor, ...]}."""

    paths: Annotated[list[str], Field(min_length=1)]


class CandidatesParams(Section):
    """The two pools."""

    words: WordPoolParams
    descriptors: DescriptorPoolParams
    watch: str


class ScoreParams(Section):
    """How the pools are scored: candidates in one shard of the resume cache, final period left off or not."""

    shard_size: PositiveInt
    search_period: bool


class DescriptorSoupParams(Section):
    """Algorithm 1."""

    m: PositiveInt


class WordSoupParams(Section):
    """Algorithm 2, in the paper's symbols."""

    k0: PositiveInt
    k1: PositiveInt
    patience: PositiveInt
    m: PositiveInt
    max_words: PositiveInt
    search_period: bool

    @model_validator(mode="after")
    def _k0_within_k1(self) -> WordSoupParams:
        if self.k0 > self.k1:
            raise ValueError(f"k0 ({self.k0}) must not exceed k1 ({self.k1}): first words come from the top k0 of k1")
        return self
