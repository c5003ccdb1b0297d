"""What every section of params.yaml shares, and how a stage reads the sections that are its own.

No unknown keys, no change after loading. There are no hidden defaults: a key that changes results is in the file;
optional keys (``null`` or absent) mean "as the model or the layout says".
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from wsoup.errors import MissingError, ParamsError

LETTERS = 500
"""What an error about params.yaml may take: one line that a person reads."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=100)]
"""A name that serves in stage and file names: letters, digits, dash and underscore."""
NAME_RULE = "a name has letters (a-z), digits, - and _, begins with a letter or a digit, and stands in file names"
PositiveInt = Annotated[int, Field(ge=1, strict=True)]
Fraction = Annotated[float, Field(ge=0, le=1)]


def _each_once(seeds: list[int]) -> list[int]:
    if len(set(seeds)) != len(seeds):
        raise ValueError(f"{seeds} holds a seed twice")
    return seeds


Seeds = Annotated[
    list[Annotated[int, Field(ge=0, lt=2**63, strict=True)]], Field(min_length=1), AfterValidator(_each_once)
]
"""Each seed draws its own few-shot images, soups and training."""


class Section(BaseModel):
    """Base of all sections: no unknown keys, no change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, use_attribute_docstrings=True)


class Sections(BaseModel):
    """Base of what one stage reads: some sections of params.yaml by their names there; the others are not its own."""

    model_config = ConfigDict(extra="ignore", frozen=True)


Model = TypeVar("Model", bound=BaseModel)


def load(model: type[Model], path: str | Path = "params.yaml") -> Model:
    """Read the sections of params.yaml that `model` names, and check them.

    Raises:
        MissingError: no such file.
        ParamsError: not YAML, an unknown key (the nearest known one is named), a wrong type or a value out of range;
            all problems in one line, or as many as fit, and the number of the others.
    """
    return parse(model, read_yaml(path), origin=str(path))


def read_yaml(path: str | Path) -> Mapping[str, Any]:
    """params.yaml as a mapping, nothing checked but that it is one."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MissingError(f"{path} does not exist; write one with `wsoup profile demo > params.yaml`") from None
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ParamsError(_one_line([f"{path} is not YAML: {error}"])) from None
    if not isinstance(raw, Mapping):
        raise ParamsError(f"{path} must hold sections (key: value), found {type(raw).__name__}")
    return raw


def parse(model: type[Model], raw: Mapping[str, Any], *, origin: str) -> Model:
    """Check an already loaded mapping; `origin` names it in errors."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first, *others = (_explain(problem, model=model, raw=raw) for problem in error.errors())
        raise ParamsError(_one_line([f"{origin}: {first}", *others])) from None


def _one_line(problems: Sequence[str]) -> str:
    """Problems in one printable line: the first one, cut in its middle where it is long, and as many as fit."""
    room = LETTERS - len(f"; and {len(problems)} more problems")
    clauses = [" ".join("".join(c if c.isprintable() else " " for c in text).split()) for text in problems]
    head = clauses[0] if len(clauses[0]) <= room else f"{clauses[0][: room - 205]} ... {clauses[0][-200:]}"
    shown = [head]
    for clause in clauses[1:]:
        if len("; ".join([*shown, clause])) > room:
            break
        shown.append(clause)
    more = len(problems) - len(shown)
    return "; ".join(shown) + (f"; and {more} more problem{'s' if more > 1 else ''}" if more else "")


_VALUES = reprlib.Repr()
_VALUES.maxstring = _VALUES.maxother = 80


def _explain(problem: Any, *, model: type[BaseModel], raw: Mapping[str, Any]) -> str:
    """One pydantic error in one clause: where, what was found, what was expected."""
    location = [part for part in problem["loc"] if part != "[key]"]
    where = ".".join(_as_written(location, raw=raw, missing=problem["type"] == "missing")) or "params"
    if problem["type"] == "extra_forbidden":
        known = _keys_at(location[:-1], model=model)
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys here: {', '.join(known)}"
        return f"unknown key {where!r}; {hint}"
    if problem["type"] == "missing":
        return f"key {where!r} is missing"
    if problem["type"] == "string_pattern_mismatch":  # only names have a pattern
        return f"{where}: {_VALUES.repr(problem['input'])} is not valid: {NAME_RULE}"
    if problem["type"] == "value_error":
        return f"{where}: {problem['ctx']['error']}"
    return f"{where}: {_VALUES.repr(problem['input'])} is not valid: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _as_written(location: list[Any], *, raw: Any, missing: bool) -> list[str]:
    """The keys of a location as they stand in the file: pydantic puts in the kind that a union was told to be."""
    keys = []
    for i, part in enumerate(location):
        if isinstance(raw, Mapping) and part not in raw and not (missing and i == len(location) - 1):
            continue
        keys.append(str(part))
        raw = raw[part] if isinstance(raw, Mapping) and part in raw else None
    return keys


def _keys_at(location: list[Any], *, model: type[BaseModel]) -> list[str]:
    """The known keys of the section at `location`, as written in YAML; in a union, of the kind that was asked for."""
    models: list[Any] = [model]
    for part in location:
        tagged = [m for m in models if part in get_args(_annotation(m, "kind"))]
        fields = [_annotation(m, part) for m in models]
        found = [inner for annotation in fields if annotation is not None for inner in _models_in(annotation)]
        models = tagged or found or models
    return list(dict.fromkeys(key for m in models for key in _by_key(m)))


def _by_key(model: Any) -> dict[str, Any]:
    """Annotations of a model's fields by their keys in YAML."""
    return {field.alias or name: field.annotation for name, field in getattr(model, "model_fields", {}).items()}


def _annotation(model: Any, key: Any) -> Any:
    return _by_key(model).get(key)


def _models_in(annotation: Any) -> list[Any]:
    """All models that an annotation names: of an optional, of a union, of the values of a dict."""
    if hasattr(annotation, "model_fields"):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]
