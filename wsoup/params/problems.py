"""What pydantic refuses, in one clause each: the key as the file has it, the value, what was expected, the nearest."""

from collections.abc import Mapping, Sequence
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from wsoup.base.errors import SHOWN_VALUE, one_line, shown_value
from wsoup.base.validation import expectation, keys_in, nearest

NAME_RULE = "a name has letters, digits, - and _, and begins with a letter or a digit; it is part of file names"
IN_PARAMS = {
    "string_type": "a text; put it in quotes if it looks like a number",
    "dict_type": "a section (key: value)",
    "model_type": "a section (key: value)",
    "model_attributes_type": "a section (key: value)",
    "invalid_key": "a key that is a text; put it in quotes",
}
"""What a value of params.yaml must be, where `wsoup.base.validation` says it more generally."""


def clauses(error: ValidationError, *, model: type[BaseModel], raw: Mapping[str, object]) -> list[str]:
    """Each problem in one clause, those that name their own cause first.

    Args:
        error: of `model` on `raw`.
        model: sections of a file.
        raw: the file's content.
    """
    # A typo is both an unknown key and a missing one: the unknown one comes first.
    problems = sorted(error.errors(), key=lambda problem: problem["type"] == "missing")
    missing = [_keys(problem, raw=raw) for problem in problems if problem["type"] == "missing"]
    explained = []
    for problem in problems:
        # It follows from another problem, which is explained.
        if problem["type"] != "default_factory_not_called":
            explained.append(_explain(problem, model=model, raw=raw, missing=missing))
    return explained


def _keys(problem: ErrorDetails, *, raw: Mapping[str, object]) -> list[str]:
    """Where one of pydantic's errors is, in the file's keys."""
    location = [part for part in problem["loc"] if part != "[key]"]
    return keys_in(raw, location=location, missing=problem["type"] == "missing")


def _explain(
    problem: ErrorDetails, *, model: type[BaseModel], raw: Mapping[str, object], missing: Sequence[Sequence[str]]
) -> str:
    """One of pydantic's errors in one clause; `missing` are all keys that the file lacks."""
    kind = problem["type"]
    context = problem.get("ctx", {})
    location = [part for part in problem["loc"] if part != "[key]"]
    keys = _keys(problem, raw=raw)
    where = one_line(".".join(keys) or "params", limit=2 * SHOWN_VALUE)
    if kind == "extra_forbidden":
        known = _known_keys(location[:-1], model=model)
        unknown = str(location[-1])
        lacking = [other[-1] for other in missing if other[:-1] == keys[:-1]]
        hint = nearest(unknown, known=known, lacking=lacking).replace("there are", "known keys here:")
        return f"unknown key {where!r}; {hint}"
    if kind == "missing":
        return f"key {where!r} is missing"
    if kind == "union_tag_not_found":
        return f"key '{where}.{_key_of(context)}' is missing"
    if kind == "value_error":
        # A problem of the whole file names its keys itself.
        if not keys:
            return str(context["error"])
        return f"{where}: {context['error']}"
    value = problem["input"]
    # Only names have a pattern.
    if kind == "string_pattern_mismatch":
        return f"{where}: {shown_value(value)} is not valid: {NAME_RULE}"
    if kind == "union_tag_invalid":
        where = f"{where}.{_key_of(context)}"
        value = context["tag"]
    must_be = expectation(problem, words=IN_PARAMS)
    return f"{where}: {shown_value(value)} is not valid: it must be {must_be}"


def _key_of(context: Mapping[str, object]) -> str:
    """The key that decides between the members of a union, which pydantic shows in quotes."""
    return str(context["discriminator"]).strip("'")


def _known_keys(location: Sequence[int | str], *, model: type[BaseModel]) -> list[str]:
    """The keys, as written in YAML, of the section at `location`; in a union, of the `kind` in question."""
    # Pydantic's locations hold the tag of a union's member beside the keys, so a part may be either.
    models: list[object] = [model]
    for part in location:
        tagged = [each for each in models if part in get_args(_fields(each).get("kind"))]
        inner: list[object] = []
        for each in models:
            inner += _models_in(_fields(each).get(str(part)))
        models = tagged or inner or models
    known: dict[str, None] = {}
    for each in models:
        known.update(dict.fromkeys(_fields(each)))
    return list(known)


def _fields(model: object) -> dict[str, object]:
    """Annotations of a model's fields by their keys in YAML."""
    fields = getattr(model, "model_fields", {})
    return {field.alias or name: field.annotation for name, field in fields.items()}


def _models_in(annotation: object) -> list[object]:
    """All models in an annotation: of an optional, of a union, of the values of a dict."""
    if hasattr(annotation, "model_fields"):
        return [annotation]
    models = []
    for argument in get_args(annotation):
        models += _models_in(argument)
    return models
