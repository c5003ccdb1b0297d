"""Sections `evaluate`, `landscape` and `report`: which rows are evaluated, and how results are shown."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from wsoup.params.section import Name, PositiveInt, Section


class SurveyParams(Section):
    """Unselected texts on every dataset, and the soup that the targets would select: a bound, never a result.

    `descriptors` null: the whole pool.
    """

    descriptors: PositiveInt | None
    chains: PositiveInt
    chain_length: PositiveInt
    m: PositiveInt


class EvaluateParams(Section):
    """Which rows are evaluated: sizes of soups and draws, and token offsets."""

    m: Annotated[list[PositiveInt], Field(min_length=1)]
    baseline_m: PositiveInt
    tuned_baseline_m: PositiveInt
    offsets: Annotated[list[Annotated[int, Field(ge=0, strict=True)]], Field(min_length=1)]
    ensemble: bool
    survey: SurveyParams

    @model_validator(mode="after")
    def _each_once(self) -> EvaluateParams:
        for key, values in (("m", self.m), ("offsets", self.offsets)):
            if values != sorted(set(values)):
                raise ValueError(f"{key} {values} must rise: each value once, in order")
        return self


class LandscapeParams(Section):
    """The plane of two initialisations and a tuned prompt: grid steps between neighbouring corners, and beyond them."""

    steps: PositiveInt
    margin: Annotated[int, Field(ge=0, strict=True)]
    soup: Name
    methods: list[Name]


class ReportParams(Section):
    """How results are shown."""

    bootstrap_samples: PositiveInt
    confidence: Annotated[float, Field(gt=0, lt=1)]
    gallery: Annotated[int, Field(ge=0, strict=True)]
