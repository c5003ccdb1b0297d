"""Sections `datasets` and `fewshot`: where images lie, what part they play, and how many are trained on."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from wsoup.params.section import PositiveInt, Section

Role = Literal["source", "xd", "dg"]


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
