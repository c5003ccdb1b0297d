"""One typed model per section of params.yaml.

Every key is checked before any work starts: an unknown key is refused with the nearest known one, a wrong type or
range with the value and where it stands. There are no hidden defaults: a key that changes results is in the file;
optional keys (``null`` or absent) mean "as the model or the layout says".
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from wsoup.errors import MissingError, ParamsError

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""A name that serves in stage and file names: letters, digits, dash and underscore."""
PositiveInt = Annotated[int, Field(ge=1, strict=True)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Role = Literal["source", "xd", "dg"]


class Section(BaseModel):
    """Base of all sections: no unknown keys, no change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class EncoderParams(Section):
    """The open_clip model whose image and text towers are used."""

    model: str
    pretrained: str | None = None
    config: str | None = None
    image_mean: tuple[float, float, float] | None = None
    image_std: tuple[float, float, float] | None = None
    interpolation: Literal["bicubic", "bilinear"] | None = None
    precision: Literal["fp32", "bf16", "fp16", "reference"]
    watch: str


class DatasetParams(Section):
    """One dataset: where it lies, how it is laid out, and what part it plays."""

    role: Role
    layout: str
    root: str
    watch: str
    template: str
    test_split: str = "test"
    classes: Literal["all", "base", "new"] = "all"
    class_names: str | None = None
    gpt_descriptors: str | None = None
    fewshot_pickles: str | None = None
    verify: bool = False
    download: bool = False

    @model_validator(mode="after")
    def _template_has_one_placeholder(self) -> DatasetParams:
        if self.template.count("{}") + self.template.count("{c}") != 1:
            raise ValueError(f"template {self.template!r} must hold exactly one placeholder, {{}} or {{c}}")
        return self


class FewshotParams(Section):
    """The few-shot training images that soups are selected on."""

    shots: PositiveInt


class EmbedParams(Section):
    """Image features."""

    batch_size: PositiveInt
    on_bad_image: Literal["stop", "skip"]


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


class Params(Section):
    """All of params.yaml."""

    source: Name
    seeds: Annotated[list[Annotated[int, Field(ge=0, strict=True)]], Field(min_length=1)]
    encoder: EncoderParams
    datasets: Annotated[dict[Name, DatasetParams], Field(min_length=1)]
    fewshot: FewshotParams
    embed: EmbedParams
    candidates: CandidatesParams
    score: ScoreParams
    descriptor_soup: DescriptorSoupParams
    word_soup: WordSoupParams
    # FINETUNE, EVALUATE and REPORT sections are added by their modules' owners below
