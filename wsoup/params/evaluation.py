"""Sections `evaluate`, `landscape` and `report`: which rows are evaluated, and how results are shown."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from wsoup.params.section import Name, NonNegativeInt, PositiveInt, Section

Members = Annotated[PositiveInt, Field(le=10_000)]
Texts = Annotated[PositiveInt, Field(le=1_000_000)]
Tokens = Annotated[NonNegativeInt, Field(le=1_000)]


class SurveyParams(Section):
    """Unselected texts on every dataset, and the soup that the targets would select: a bound, never a result."""

    descriptors: Texts
    chains: Texts
    chain_length: Annotated[PositiveInt, Field(le=1_000)]
    m: Members


class EvaluateParams(Section):
    """Which rows are evaluated: sizes of soups and draws, and token offsets."""

    m: Annotated[list[Members], Field(min_length=1, max_length=100)]
    baseline_m: Members
    tuned_baseline_m: Members
    offsets: Annotated[list[Tokens], Field(min_length=1, max_length=100)]
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

    steps: Annotated[PositiveInt, Field(le=200)]
    margin: Annotated[NonNegativeInt, Field(le=200)]
    soup: Name
    methods: list[Name]


class ReportParams(Section):
    """How results are shown."""

    bootstrap_samples: Annotated[PositiveInt, Field(le=100_000)]
    confidence: Annotated[float, Field(gt=0, lt=1)]
    gallery: Annotated[NonNegativeInt, Field(le=1_000)]
