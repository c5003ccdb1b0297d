"""One typed model per section of params.yaml.

Every key is checked before any work starts: an unknown key is refused with the nearest known one, a wrong type or
range with the value and where it stands. There are no hidden defaults: a key that changes results is in the file;
optional keys (``null`` or absent) mean "as the model or the layout says".
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, model_validator

from wsoup.errors import MissingError, ParamsError
from wsoup.params.datasets import DatasetParams, FewshotParams
from wsoup.params.encoder import EmbedParams, EncoderParams
from wsoup.params.evaluation import EvaluateParams, LandscapeParams, ReportParams
from wsoup.params.finetune import FinetuneParams, PromptTune
from wsoup.params.search import CandidatesParams, DescriptorSoupParams, ScoreParams, WordSoupParams
from wsoup.params.section import Name, Section


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
    landscape: LandscapeParams
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

    @model_validator(mode="after")
    def _landscapes_are_of_trained_prompts(self) -> Params:
        known = self.finetune.methods
        for name in self.landscape.methods:
            if name not in known:
                raise ValueError(f"landscape.methods: {name!r} is not among finetune.methods: {', '.join(known)}")
            if not isinstance(known[name].tune, PromptTune):
                raise ValueError(
                    f"landscape.methods: {name!r} has tune.kind {known[name].tune.kind}; the plane is of a trained "
                    "prompt: list methods with tune.kind prompt"
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
