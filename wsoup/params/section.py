"""Sections of params.yaml, whose every key is checked.

A section has no unknown keys and does not change after loading. There are no hidden defaults: every key that changes
results is in the file, and an optional key (``null`` or absent) means "as the model or the layout says".
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from wsoup.base.errors import LONGEST, SHOWN_VALUE, ParamsError, one_line, shown_value
from wsoup.params.reading import read_yaml

# ------------------------------------------------------------------------------------------------- types of fields

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=100)]
"""A name used in stage and file names."""
NAME_RULE = "a name has letters (a-z), digits, - and _, and begins with a letter or a digit; it is part of file names"
PositiveInt = Annotated[int, Field(ge=1, strict=True)]
"""A count. One that multiplies memory or time also has an upper bound, far beyond any sensible use."""
NonNegativeInt = Annotated[int, Field(ge=0, strict=True)]
Fraction = Annotated[float, Field(ge=0, le=1)]


def _unique(seeds: list[int]) -> list[int]:
    if len(set(seeds)) != len(seeds):
        raise ValueError(f"{seeds} holds a seed twice")
    return seeds


Seeds = Annotated[
    list[Annotated[int, Field(ge=0, lt=2**63, strict=True)]],
    Field(min_length=1, max_length=100),
    AfterValidator(_unique),
]
"""Each seed draws its own few-shot images, soups and training."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} holds a control character; take it out")
    return text


Text = Annotated[str, Field(max_length=4000), AfterValidator(_printable)]
"""One line: a path, a template, a model's name."""
Place = Annotated[str, Field(min_length=1, max_length=4000), AfterValidator(_printable)]
"""A path."""


class Section(BaseModel):
    """Base of all sections: no unknown keys, no change after loading, no NaN and no infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


def check_stated(section: Section, *, because_of: str) -> None:
    """Raise ValueError if keys that dvc.yaml tracks one by one are left to their defaults; `because_of` needs them."""
    left = [name for name in type(section).model_fields if name not in section.model_fields_set]
    if left:
        raise ValueError(f"{because_of} needs {', '.join(left)} beside it (docs/params.md has usual values)")


class Sections(BaseModel):
    """Base of what one stage reads: some sections of params.yaml by name; it ignores the others."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


# ------------------------------------------------------------------------------------------------ reading and checks

SHOWN_PROBLEMS = 3
"""Clauses of an error; further problems are counted."""
Model = TypeVar("Model", bound=BaseModel)
Value = TypeVar("Value")


def load(model: type[Model], path: str | Path = "params.yaml") -> Model:
    """Read and check the sections of params.yaml that `model` names.

    Raises:
        MissingError: no such file.
        DataError: not a regular file.
        ParamsError: unreadable, not YAML, an unknown key (with the nearest known one), a wrong type or a value out of
            range; the first three problems in one line, and the number of the others.
    """
    return parse(model, read_yaml(path), origin=str(path))


def one_of(section: str, entries: Mapping[str, Value], name: str) -> Value:
    """The entry of a section that a stage is asked for; raises ParamsError, with the names that there are."""
    if name not in entries:
        raise ParamsError(f"{section} has no {name!r}; it has {', '.join(entries) or 'none'}")
    return entries[name]


def parse(model: type[Model], raw: Mapping[str, Any], *, origin: str) -> Model:
    """Check a mapping; `origin` names it in errors. Raises ParamsError as `load`."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        # A typo is both an unknown key and a missing one: the unknown one comes first.
        problems = sorted(error.errors(), key=lambda problem: problem["type"] == "missing")
        clauses = [_explain(problem, model=model, raw=raw) for problem in problems[:SHOWN_PROBLEMS]]
        n_more = len(problems) - len(clauses)
        more = f"; and {n_more} more" if n_more else ""
        text = one_line(f"{origin}: {'; '.join(clauses)}", limit=LONGEST - len(more))
        raise ParamsError(text + more) from None


def _explain(problem: Any, *, model: type[BaseModel], raw: Mapping[str, Any]) -> str:
    """One pydantic error in one clause: where, the value, what was expected."""
    location = [part for part in problem["loc"] if part != "[key]"]
    is_missing = problem["type"] == "missing"
    where = ".".join(_keys_in_file(location, raw=raw, is_missing=is_missing)) or "params"
    where = one_line(where, limit=2 * SHOWN_VALUE)
    if is_missing:
        return f"key {where!r} is missing"
    value = shown_value(problem["input"])
    match problem["type"]:
        case "extra_forbidden":
            hint = nearest(str(location[-1]), known=_known_keys(location[:-1], model=model))
            return f"unknown key {where!r}; {hint}"
        case "string_pattern_mismatch":  # only names have a pattern
            return f"{where}: {value} is not valid: {NAME_RULE}"
        case "value_error":
            return f"{where}: {problem['ctx']['error']}"
    expected = problem["msg"]
    return f"{where}: {value} is not valid: {expected[0].lower()}{expected[1:]}"


def nearest(key: str, *, known: Sequence[str]) -> str:
    """What to use instead of an unknown key, for an error.

    >>> nearest("pateince", known=["k0", "patience"]), nearest("zzz", known=["k0", "patience"])
    ("did you mean 'patience'?", 'known keys here: k0, patience')
    """
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known keys here: {', '.join(known)}"


def _keys_in_file(location: list[Any], *, raw: Any, is_missing: bool) -> list[str]:
    """The keys of a location that the file has: pydantic adds which member of a union it tried."""
    keys = []
    last = len(location) - 1
    for i, part in enumerate(location):
        if _holds(raw, part):
            keys.append(str(part))
            raw = raw[part]
        elif is_missing and i == last:
            keys.append(str(part))
    return keys


def _holds(raw: Any, part: object) -> bool:
    """Whether a mapping has this key, or a list this index."""
    if isinstance(raw, list):
        return part in range(len(raw))
    return isinstance(raw, Mapping) and part in raw


def _known_keys(location: list[Any], *, model: type[BaseModel]) -> list[str]:
    """The keys, as written in YAML, of the section at `location`; in a union, of the `kind` in question."""
    models: list[Any] = [model]
    for part in location:
        tagged = [each for each in models if part in get_args(_fields(each).get("kind"))]
        inner: list[Any] = []
        for each in models:
            inner += _models_in(_fields(each).get(part))
        models = tagged or inner or models
    keys: list[str] = []
    for each in models:
        keys += _fields(each)
    return list(dict.fromkeys(keys))


def _fields(model: Any) -> dict[str, Any]:
    """Annotations of a model's fields by their keys in YAML."""
    fields = getattr(model, "model_fields", {})
    return {field.alias or name: field.annotation for name, field in fields.items()}


def _models_in(annotation: Any) -> Iterator[Any]:
    """All models in an annotation: of an optional, of a union, of the values of a dict."""
    if hasattr(annotation, "model_fields"):
        yield annotation
        return
    for argument in get_args(annotation):
        yield from _models_in(argument)
