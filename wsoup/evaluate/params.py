"""Sections `evaluate`, `landscape` and `report`: which rows are evaluated, and how results are shown."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from wsoup.core.arguments import Flag
from wsoup.core.params.section import Name, NonNegativeInt, PositiveInt, Section, Text
from wsoup.core.prompts import bare

Members = Annotated[PositiveInt, Field(le=10_000)]
Texts = Annotated[PositiveInt, Field(le=1_000_000)]
Tokens = Annotated[NonNegativeInt, Field(le=1_000)]


class SurveyParams(Section):
    """Unselected texts on every dataset, and the soup that the targets would select: a bound, never a result."""

    descriptors: Texts | None
    """Of the pool, evaluated on every dataset (null: all); the upper bound is selected from these."""
    chains: Texts
    """Random word chains, on the source's few-shot images."""
    chain_length: Annotated[PositiveInt, Field(le=1_000)]
    """Words in each."""
    m: Members
    """Members of the upper bound at most."""


class EvaluateParams(Section):
    """Which rows are evaluated: sizes of soups and draws, and token offsets."""

    m: Annotated[list[Members], Field(min_length=1, max_length=100)]
    """Soup sizes on the accuracy-against-m curve, rising."""
    baseline_m: Members
    """Random, Waffle and nearest descriptors of the pretrained rows."""
    tuned_baseline_m: Members
    """The same for finetuned models."""
    offsets: Annotated[list[Tokens], Field(min_length=1, max_length=100)]
    """Null tokens between class name and descriptor, rising: the offset trick's copies of a member."""
    offset_formula: Literal["wording", "code"] = "wording"
    """Where they stand: `wording` as the paper says, after the comma ("a dog, ! ! ! which ..."); `code` as the authors'
    code has it (models.py:429), behind the whole prompt, its period and its end of text ("a dog. <end> ! , which")."""
    ensemble: Flag
    """Also evaluate OpenAI's 80 prompt templates."""
    texts: Annotated[list[Text], Field(max_length=1000)]
    """Texts of your own, each counted alone beside the class name, such as "a type of pet"."""
    survey: SurveyParams
    """Texts that nobody selected (stage survey)."""

    @model_validator(mode="after")
    def _each_once(self) -> EvaluateParams:
        for key, values in (("m", self.m), ("offsets", self.offsets)):
            if values != sorted(set(values)):
                raise ValueError(f"{key} {values} must rise: each value once, in order")
        if len({bare(text) for text in self.texts}) < len(self.texts):
            raise ValueError(f"texts {self.texts} must name each text once")
        return self


class LandscapeParams(Section):
    """The plane of two initialisations and a tuned prompt: grid steps between neighbouring corners, and beyond them."""

    steps: Annotated[PositiveInt, Field(le=200)]
    """Of the grid, from one initialisation to the other and from the start to the tuned prompt."""
    margin: Annotated[NonNegativeInt, Field(le=200)]
    """Further steps beyond each end."""
    soup: Name
    """Whose first members span the plane."""
    methods: list[Name]
    """Of finetune.methods, those with tune.kind prompt, or soft_descriptors with one member (the paper's)."""


class ReportParams(Section):
    """What a run is asked, before anything is seen, and how results are shown."""

    soup: Name
    """The soup that the run is about, all seeds together: the verdict's, and what `wsoup classify` and `wsoup soup
    export` take where none is named. Its comparison with the class name needs no correction for others."""
    mode: Literal["centroid", "score_mean", "paper"]
    """How soups are used where they are judged: centroid, as classifiers and exports are; score_mean (`--mode
    score_mean` there); or paper, a descriptor soup as a centroid and any other as a score mean."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Of intervals, such as 0.95."""
    gallery: Annotated[NonNegativeInt, Field(le=1_000)]
    """Images shown for each target that a soup turned right, and as many that it turned wrong."""
