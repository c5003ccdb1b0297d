"""Sections `datasets` and `fewshot`: where images lie, what part they play, and how many are trained on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from wsoup.params.section import Name, Place, PositiveInt, Section, Text
from wsoup.prompts import checked

Role = Literal["source", "xd", "dg"]


class DatasetParams(Section):
    """One dataset: where it lies, how it is laid out, and what part it plays."""

    role: Role
    layout: Text
    root: Place
    watch: Place
    template: Annotated[Text, AfterValidator(checked)]
    test_split: Text = "test"
    classes: Literal["all", "base", "new"] = "all"
    class_names: Place | None = None
    gpt_descriptors: Place | None = None
    fewshot_pickles: Place | None = None
    verify: bool = False
    download: bool = False


class FewshotParams(Section):
    """The few-shot training images that soups are selected on."""

    shots: Annotated[PositiveInt, Field(le=100_000)]


Datasets = Annotated[dict[Name, DatasetParams], Field(min_length=1)]
"""Section `datasets`: by name."""
