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


# ------------------------------------------------------------------------------------------------------ finetune


class MethodParams(Section):
    """One finetuned method: what is trained, with which loss, on which texts."""

    tune: str
    loss: str
    soup: Literal["class_name", "descriptor", "word"]
    learning_rate: Annotated[float, Field(gt=0)]


class FinetuneParams(Section):
    """What all finetuned methods share, and the methods by name."""

    iterations: PositiveInt
    batch_size: PositiveInt
    methods: dict[Name, MethodParams]


# ------------------------------------------------------------------------------------------- evaluate and report


class EvaluateParams(Section):
    """Which rows are evaluated."""


class ReportParams(Section):
    """How results are shown."""


# ----------------------------------------------------------------------------------------------------- all of it


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
    finetune: FinetuneParams
    evaluate: EvaluateParams
    report: ReportParams

    @model_validator(mode="after")
    def _parts_agree(self) -> Params:
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds {self.seeds} holds a seed twice")
        if self.source not in self.datasets:
            raise ValueError(f"source {self.source!r} is not among the datasets: {', '.join(self.datasets)}")
        sources = [name for name, dataset in self.datasets.items() if dataset.role == "source"]
        if sources != [self.source]:
            raise ValueError(
                f"exactly one dataset has role: source, and it is {self.source!r} (the key `source`); "
                f"found role: source on {sources or 'none'}"
            )
        return self


def load_params(path: str | Path = "params.yaml") -> Params:
    """Read and check params.yaml.

    Raises:
        MissingError: no such file.
        ParamsError: not YAML, an unknown key (the nearest known one is named), a wrong type or a value out of range;
            all problems in one line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MissingError(f"{path} does not exist; write one with `wsoup profile demo > params.yaml`") from None
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ParamsError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, Mapping):
        raise ParamsError(f"{path} must hold sections (key: value), found {type(raw).__name__}")
    return parse_params(raw, origin=str(path))


def parse_params(raw: Mapping[str, Any], *, origin: str) -> Params:
    """Check an already loaded mapping; `origin` names it in errors."""
    try:
        return Params.model_validate(raw)
    except ValidationError as error:
        problems = "; ".join(_explain(problem, raw=raw) for problem in error.errors())
        raise ParamsError(f"{origin}: {problems}") from None


def _explain(problem: Any, *, raw: Any) -> str:
    """One pydantic error in one clause: where, what was found, what was expected."""
    location = [part for part in problem["loc"] if part != "[key]"]
    where = ".".join(str(part) for part in location) or "params"
    if problem["type"] == "extra_forbidden":
        known = _keys_at(location[:-1])
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys here: {', '.join(known)}"
        return f"unknown key {where!r}; {hint}"
    if problem["type"] == "missing":
        return f"key {where!r} is missing"
    if problem["type"] == "value_error":
        return f"{where}: {problem['ctx']['error']}"
    return f"{where}: {problem['input']!r} is not valid: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _keys_at(location: list[Any]) -> list[str]:
    """The known keys of the section at `location`, as written in YAML."""
    model: Any = Params
    for part in location:
        fields = getattr(model, "model_fields", None)
        if fields is None:
            return []
        by_key = {field.alias or name: field.annotation for name, field in fields.items()}
        annotation = by_key.get(part)
        if annotation is None:
            continue  # a name in a dict of sections, for example a dataset
        arguments = [a for a in getattr(annotation, "__args__", ()) if hasattr(a, "model_fields")]
        model = arguments[-1] if arguments else annotation
    return [field.alias or name for name, field in getattr(model, "model_fields", {}).items()]
