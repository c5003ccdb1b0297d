"""Sections `datasets` and `fewshot`: where images lie, what part they play, and how many are trained on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from wsoup.params.section import Name, PositiveInt, Section
from wsoup.prompts import checked

Role = Literal["source", "xd", "dg"]


class DatasetParams(Section):
    """One dataset: where it lies, how it is laid out, and what part it plays."""

    role: Role
    layout: str
    root: str
    watch: str
    template: Annotated[str, AfterValidator(checked)]
    test_split: str = "test"
    classes: Literal["all", "base", "new"] = "all"
    class_names: str | None = None
    gpt_descriptors: str | None = None
    fewshot_pickles: str | None = None
    verify: bool = False
    download: bool = False


class FewshotParams(Section):
    """The few-shot training images that soups are selected on."""

    shots: PositiveInt


Datasets = Annotated[dict[Name, DatasetParams], Field(min_length=1)]
"""Section `datasets`: by name."""
