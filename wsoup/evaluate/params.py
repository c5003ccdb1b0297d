"""Sections `evaluate`, `landscape` and `report`: which rows are evaluated, and how results are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from wsoup.base.arguments import Flag
from wsoup.core.modes import JudgedMode
from wsoup.core.prompts import bare
from wsoup.evaluate.rows import OWN_TEMPLATES, SIMPLE
from wsoup.params.section import NO_BOOLEAN, Name, NonNegativeInt, Place, PositiveInt, Section, Text, check_stated
from wsoup.search.pools.params import LISTED_TEMPLATES, MemberCount, TextCount

TokenCount = Annotated[NonNegativeInt, Field(le=1_000)]
TemplateList = Annotated[Place, Field(description="A file of templates, or openai7, openai80 or simple.")]


class SurveyParams(Section):
    """Unselected texts on every dataset, and the soup that the targets would select: an upper bound, never a result."""

    descriptors: TextCount | None
    """Descriptors of the pool to evaluate on every dataset (null: all); the upper bound is selected from these."""
    chains: TextCount
    """Random word chains to evaluate on the source's few-shot images."""
    chain_length: Annotated[PositiveInt, Field(le=1_000)]
    """Words in each chain."""
    m: MemberCount
    """Maximum number of members of the upper bound."""


class EvaluateParams(Section):
    """Which rows are evaluated: sizes of soups and draws, and token offsets."""

    m: Annotated[list[MemberCount], Field(min_length=1, max_length=100)]
    """Soup sizes of the curve of accuracy over m, in rising order."""
    baseline_m: MemberCount
    """Number of random and Waffle descriptors for the pretrained model."""
    tuned_baseline_m: MemberCount
    """The same for finetuned models."""
    offsets: Annotated[list[TokenCount], Field(min_length=1, max_length=100)]
    """The offset trick: null tokens between class name and descriptor, in rising order; each repeats every member."""
    offset_formula: Literal["wording", "code"]
    """Where null tokens go: `wording` as in the paper, after the comma ("a dog, ! ! ! which ..."); `code` as in the
    authors' code (models.py:429), after the whole prompt, its period and end of text ("a dog. <end> ! , which")."""
    ensemble: Flag
    """Also evaluate OpenAI's 80 prompt templates."""
    weighed: Flag
    """Also evaluate templates, random texts and soups with weighted texts: by AutoCLIP, from each image's own scores,
    and by ZPE, from a dataset's unlabelled images. Every text scores every image: for ImageNet, use a GPU."""
    templates: dict[Name, TemplateList] = Field(default_factory=dict)
    """Further rows of prompt templates by name: a file of templates (one a line, each with one {}; under
    candidates.watch), or a list that comes with wsoup under its own name: openai7 (the seven that OpenAI selected),
    openai80 (the row of `ensemble`), simple (the dataset's template alone)."""
    texts: Annotated[list[Text], Field(max_length=1000)]
    """Texts of your own, such as "a type of pet" or "art of the {}.", each evaluated alone."""
    survey: SurveyParams
    """Unselected texts (stage survey)."""

    @model_validator(mode="after")
    def _each_once(self) -> EvaluateParams:
        for key, values in (("m", self.m), ("offsets", self.offsets)):
            if values != sorted(set(values)):
                raise ValueError(f"{key} {values} must be in rising order, each value once")
        if len({bare(text) for text in self.texts}) < len(self.texts):
            raise ValueError(f"texts {self.texts} must name each text once")
        return self

    @model_validator(mode="after")
    def _lists_have_their_own_names(self) -> EvaluateParams:
        for name, source in self.templates.items():
            if name == OWN_TEMPLATES:
                raise ValueError(
                    f"templates: the name {name!r} is that of the row of the datasets' own (datasets.<name>.templates)"
                )
            listed = {name, source}.intersection((*LISTED_TEMPLATES, SIMPLE))
            if listed and name != source:
                raise ValueError(f"templates: {listed.pop()!r} comes with wsoup and has a row of its own name")
        return self

    @property
    def has_ensemble(self) -> bool:
        """Whether OpenAI's 80 templates are evaluated."""
        return "openai80" in self.templates or self.ensemble

    @staticmethod
    def lists_in(templates: Mapping[str, str] | None) -> dict[str, str]:
        """`template_lists` of the value of ``evaluate.templates``, also of a record that has none."""
        return {name: source for name, source in (templates or {}).items() if name != "openai80"}

    @property
    def template_lists(self) -> dict[str, str]:
        """Rows of templates besides the ensemble: name -> file, or list that comes with wsoup."""
        return self.lists_in(self.templates)

    @property
    def template_files(self) -> dict[str, str]:
        """Those that are files of the user's."""
        known = (*LISTED_TEMPLATES, SIMPLE)
        return {name: source for name, source in self.templates.items() if source not in known}


class LandscapeParams(Section):
    """The loss landscape: the 0-1 loss over the plane of two initialisations and a tuned soft descriptor."""

    steps: Annotated[PositiveInt, Field(le=200)] = 10
    """Grid steps from the tuned descriptor to each initialisation (the paper: 10)."""
    margin: Annotated[NonNegativeInt, Field(le=200)] = 5
    """Grid steps by which the lines to the initialisations go on beyond both ends (the paper: 5)."""
    soup: Name = "word"
    """Soup whose first member spans the plane, with random words."""
    methods: list[Name]
    """Names in finetune.methods with tune.kind soft_descriptors, one member and no prompt."""

    @model_validator(mode="after")
    def _all_stated(self) -> LandscapeParams:
        if self.methods:
            check_stated(self, name="landscape", because_of="methods")
        return self


class ReportParams(Section):
    """What a run is to answer, fixed before any result is seen, and how results are shown."""

    soup: Name
    """The main soup, all seeds combined: the one the verdict is about, and the default of `wsoup classify` and `wsoup
    soup export`. Its comparisons with the class name and the templates are corrected together."""
    method: Name | None = None
    """The finetuned method that the run is about, a name under finetune.methods: its accuracy is in metrics.json and in
    the answer, beside the soup's; null: none."""
    question: Literal["soup", "photos"] = "soup"
    """What the answer says: soup, what the soup changes, what finetuning with it adds, and how far a head gets; photos,
    which of class name, templates, soup and head to use for such photos."""
    mode: JudgedMode
    """How soups are judged: centroid, as classifiers and exports are made; score_mean; or paper, a descriptor soup as a
    centroid and any other as a score mean."""
    confidence: Annotated[float, Field(gt=0, lt=1), NO_BOOLEAN] = 0.95
    """Confidence level of intervals, such as 0.95."""
    gallery: Annotated[NonNegativeInt, Field(le=1_000)] = 6
    """Images shown per target that the soup corrects, and as many that it gets wrong."""
