"""What pydantic refuses, in one clause each: the key as the file has it, the value, what was expected, the nearest."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from wsoup.base.errors import SHOWN_VALUE, one_line, shown_value

NAME_RULE = "a name has letters (a-z), digits, - and _, and begins with a letter or a digit; it is part of file names"
EXPECTED = {
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "int_parsing_size": "an integer that is far smaller",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number, neither infinite nor NaN",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text; put it in quotes if it looks like a number",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a section (key: value)",
    "model_type": "a section (key: value)",
    "model_attributes_type": "a section (key: value)",
    "invalid_key": "a key that is a text; put it in quotes",
    "greater_than_equal": "{ge} or more",
    "greater_than": "more than {gt}",
    "less_than_equal": "{le} or less",
    "less_than": "less than {lt}",
    "string_too_short": "a text of {min_length} character or more",
    "string_too_long": "a text of {max_length} characters or fewer",
    "too_short": "a list of {min_length} or more",
    "too_long": "a list of {max_length} or fewer",
}
"""Kind of pydantic's error -> what the value must be; in braces what its context holds."""


def clauses(error: ValidationError, *, model: type[BaseModel], raw: Mapping[str, Any]) -> list[str]:
    """Each problem in one clause, those that name their own cause first.

    Args:
        error: of `model` on `raw`.
        model: sections of a file.
        raw: the file's content.
    """
    # A typo is both an unknown key and a missing one: the unknown one comes first.
    problems = sorted(error.errors(), key=lambda problem: problem["type"] == "missing")
    explained = []
    for problem in problems:
        if problem["type"] != "default_factory_not_called":  # follows from another problem, which is explained
            explained.append(_explain(problem, model=model, raw=raw))
    return explained


def nearest(name: str, *, known: Sequence[str]) -> str:
    """A hint for a name that is not known: the nearest one that is, or all of them."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"there are {', '.join(known)}"


def _explain(problem: Any, *, model: type[BaseModel], raw: Mapping[str, Any]) -> str:
    """One of pydantic's errors in one clause."""
    kind = problem["type"]
    context = problem.get("ctx", {})
    location = [part for part in problem["loc"] if part != "[key]"]
    keys = _keys_in_file(location, raw=raw, missing=kind == "missing")
    where = one_line(".".join(keys) or "params", limit=2 * SHOWN_VALUE)
    if kind == "extra_forbidden":
        known = _known_keys(location[:-1], model=model)
        hint = nearest(str(location[-1]), known=known).replace("there are", "known keys here:")
        return f"unknown key {where!r}; {hint}"
    if kind == "missing":
        return f"key {where!r} is missing"
    if kind == "union_tag_not_found":
        return f"key '{where}.{_key_of(context)}' is missing"
    if kind == "value_error":
        return f"{where}: {context['error']}" if keys else str(context["error"])
    value = problem["input"]
    if kind == "string_pattern_mismatch":  # only names have a pattern
        return f"{where}: {shown_value(value)} is not valid: {NAME_RULE}"
    if kind == "union_tag_invalid":
        where = f"{where}.{_key_of(context)}"
        value = context["tag"]
        must_be = _one_of(value, expected=context["expected_tags"])
    elif kind == "literal_error":
        must_be = _one_of(value, expected=context["expected"])
    elif kind in EXPECTED:
        must_be = f"it must be {EXPECTED[kind].format(**context)}"
    else:
        message = problem["msg"]
        must_be = f"{message[0].lower()}{message[1:]}"
    return f"{where}: {shown_value(value)} is not valid: {must_be}"


def _key_of(context: Mapping[str, Any]) -> str:
    """The key that decides between the members of a union, which pydantic shows in quotes."""
    return str(context["discriminator"]).strip("'")


def _one_of(value: object, *, expected: str) -> str:
    """What a value must be, given how pydantic lists it: ``'a', 'b' or 'c'``."""
    names = [name.strip(" '") for name in expected.replace(" or ", ", ").split(",")]
    listed = f"it must be {names[0]}" if len(names) == 1 else f"it must be one of {', '.join(names)}"
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    return f"{listed}; did you mean {near[0]!r}?" if near else listed


def _keys_in_file(location: list[Any], *, raw: Any, missing: bool) -> list[str]:
    """The keys of a location that the file has: pydantic adds which member of a union it tried."""
    # The other parts of a location, such as the tag "chains", would name no line of the file.
    keys = []
    last = len(location) - 1
    for i, part in enumerate(location):
        inside = False
        if isinstance(raw, list):
            inside = part in range(len(raw))
        elif isinstance(raw, Mapping):
            inside = part in raw
        if inside or (missing and i == last):
            keys.append(str(part))
        if inside:
            raw = raw[part]
    return keys


def _known_keys(location: list[Any], *, model: type[BaseModel]) -> list[str]:
    """The keys, as written in YAML, of the section at `location`; in a union, of the `kind` in question."""
    # Pydantic's locations hold the tag of a union's member beside the keys, so a part may be either.
    models: list[Any] = [model]
    for part in location:
        tagged = [each for each in models if part in get_args(_fields(each).get("kind"))]
        inner: list[Any] = []
        for each in models:
            inner += _models_in(_fields(each).get(part))
        models = tagged or inner or models
    known: dict[str, None] = {}
    for each in models:
        known.update(dict.fromkeys(_fields(each)))
    return list(known)


def _fields(model: Any) -> dict[str, Any]:
    """Annotations of a model's fields by their keys in YAML."""
    fields = getattr(model, "model_fields", {})
    return {field.alias or name: field.annotation for name, field in fields.items()}


def _models_in(annotation: Any) -> list[Any]:
    """All models in an annotation: of an optional, of a union, of the values of a dict."""
    if hasattr(annotation, "model_fields"):
        return [annotation]
    models = []
    for argument in get_args(annotation):
        models += _models_in(argument)
    return models
