"""What every section of params.yaml shares, and how a stage reads the sections that are its own.

No unknown keys, no change after loading. There are no hidden defaults: a key that changes results is in the file;
optional keys (``null`` or absent) mean "as the model or the layout says".
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from wsoup.core.errors import LONGEST, SHOWN_VALUE, MissingError, ParamsError, StorageError, one_line, shown_value
from wsoup.core.params.described import Described
from wsoup.core.params.yaml12 import Loader

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=100)]
"""A name that serves in stage and file names: letters, digits, dash and underscore."""
NAME_RULE = "a name has letters (a-z), digits, - and _, begins with a letter or a digit, and stands in file names"
PositiveInt = Annotated[int, Field(ge=1, strict=True)]
"""A count. What multiplies memory or time has an upper bound beside it, far beyond any sensible use."""
NonNegativeInt = Annotated[int, Field(ge=0, strict=True)]
Fraction = Annotated[float, Field(ge=0, le=1)]


def _each_once(seeds: list[int]) -> list[int]:
    if len(set(seeds)) != len(seeds):
        raise ValueError(f"{seeds} holds a seed twice")
    return seeds


Seeds = Annotated[
    list[Annotated[int, Field(ge=0, lt=2**63, strict=True)]],
    Field(min_length=1, max_length=100),
    AfterValidator(_each_once),
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

LARGEST_FILE = 200_000
"""Letters of params.yaml; the paper's has 10,000."""
MOST_VALUES = 50_000
"""Values in params.yaml, each alias counted as what it stands for: a few lines may stand for 10^9."""


class Section(Described):
    """Base of all sections: no unknown keys, no change after loading, no NaN and no infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


class Sections(BaseModel):
    """Base of what one stage reads: some sections of params.yaml by their names there; the others are not its own."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


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
    """params.yaml as a mapping, nothing checked but that it is one, of a bounded size, with each key once.

    Raises:
        MissingError, StorageError: no such file, or it cannot be read.
        ParamsError: not UTF-8, not YAML, too large, a key twice, or no mapping.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):  # a FIFO waits, a device has no end
            raise StorageError(f"{path} is not a file; it must be a file of YAML")
        if status.st_size > 4 * LARGEST_FILE:  # bytes of a letter, at most
            raise ParamsError(f"{path} has {status.st_size:,} bytes; params have {LARGEST_FILE:,} letters at most")
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MissingError(f"{path} does not exist; write one with `wsoup profile demo --out params.yaml`") from None
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}); it must be a file of YAML") from None
    except UnicodeDecodeError as error:
        raise ParamsError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    return parse_yaml(text, origin=str(path))


def parse_yaml(text: str, *, origin: str) -> Mapping[str, Any]:
    """The same of a text, which may be that of another revision; `origin` names it in errors."""
    path = origin
    if len(text) > LARGEST_FILE:
        raise ParamsError(f"{path} has {len(text):,} letters, params have {LARGEST_FILE:,} at most; is it the file?")
    try:
        raw = _construct(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # dates, numbers and depth that Python does not have
        raise ParamsError(one_line(f"{path} is not YAML: {error}")) from None
    if not isinstance(raw, Mapping):
        raise ParamsError(f"{path} must hold sections (key: value), found {type(raw).__name__}")
    return raw


def _construct(text: str) -> Any:
    """The value of a YAML document; a new one each time, which is the caller's own."""
    node = _node(text)
    return None if node is None else Loader("").construct_document(node)


@lru_cache(maxsize=4)  # a stage reads params.yaml and dvc.yaml again and again
def _node(text: str) -> yaml.Node | None:
    """A YAML document, looked over before anything is made of it: merged keys are multiplied, too."""
    node = Loader(text).get_single_node()
    if node is not None and _values_in(node, known={}) > MOST_VALUES:
        raise ValueError(f"with its aliases (*name) it stands for more than {MOST_VALUES:,} values; write them out")
    return node


def _values_in(node: yaml.Node, *, known: dict[int, int | None]) -> int:
    """How many values a node stands for, aliases written out; each node is looked at once."""
    if node is None or isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) in known:
        values = known[id(node)]
        if values is None:
            raise ValueError(f"the value in line {node.start_mark.line + 1} holds itself by an alias (*name)")
        return values
    known[id(node)] = None
    if isinstance(node, yaml.MappingNode):
        _check_keys(node)
        children = [part for pair in node.value for part in pair]
    else:
        children = node.value
    known[id(node)] = total = 1 + sum(_values_in(child, known=known) for child in children)
    return total


def _check_keys(node: yaml.MappingNode) -> None:
    """Of a key that appears twice YAML takes the last one, in silence; DVC refuses it."""
    seen: dict[str, int] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            line = key.start_mark.line + 1
            if key.value in seen:
                raise ValueError(f"key {key.value!r} appears in line {seen[key.value]} and in line {line}; keep one")
            seen[key.value] = line


def parse(model: type[Model], raw: Mapping[str, Any], *, origin: str) -> Model:
    """Check an already loaded mapping; `origin` names it in errors."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        # A typo is an unknown key and a missing one: the unknown one is said first.
        problems = sorted(error.errors(), key=lambda problem: problem["type"] == "missing")
        first, *others = (_explain(problem, model=model, raw=raw) for problem in problems)
        raise ParamsError(_as_many_as_fit([f"{origin}: {first}", *others])) from None


def _as_many_as_fit(problems: Sequence[str]) -> str:
    """Problems in one line: the first one, cut in its middle where it is long, and as many of the others as fit."""
    room = LONGEST - len(f"; and {len(problems)} more problems")
    shown, *others = [one_line(text, limit=room) for text in problems]
    left = len(others)
    for clause in others:
        if len(shown) + len(clause) + 2 > room:
            break
        shown, left = f"{shown}; {clause}", left - 1
    return shown + (f"; and {left} more problem{'s' if left > 1 else ''}" if left else "")


def _explain(problem: Any, *, model: type[BaseModel], raw: Mapping[str, Any]) -> str:
    """One pydantic error in one clause: where, what was found, what was expected."""
    location = [part for part in problem["loc"] if part != "[key]"]
    where = ".".join(_as_written(location, raw=raw, missing=problem["type"] == "missing")) or "params"
    where = one_line(where, limit=2 * SHOWN_VALUE)
    if problem["type"] == "extra_forbidden":
        known = _keys_at(location[:-1], model=model)
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys here: {', '.join(known)}"
        return f"unknown key {where!r}; {hint}"
    if problem["type"] == "missing":
        return f"key {where!r} is missing"
    if problem["type"] == "string_pattern_mismatch":  # only names have a pattern
        return f"{where}: {shown_value(problem['input'])} is not valid: {NAME_RULE}"
    if problem["type"] == "value_error":
        return f"{where}: {problem['ctx']['error']}"
    return f"{where}: {shown_value(problem['input'])} is not valid: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _as_written(location: list[Any], *, raw: Any, missing: bool) -> list[str]:
    """The keys of a location as they stand in the file: pydantic puts in which of a union's kinds it tried."""
    keys = []
    for i, part in enumerate(location):
        held = range(len(raw)) if isinstance(raw, list) else raw if isinstance(raw, Mapping) else ()
        inside = part in held
        if inside or (missing and i == len(location) - 1):
            keys.append(str(part))
        raw = raw[part] if inside else raw
    return keys


def _keys_at(location: list[Any], *, model: type[BaseModel]) -> list[str]:
    """The known keys of the section at `location`, as written in YAML; in a union, of the kind that was asked for."""
    models: list[Any] = [model]
    for part in location:
        tagged = [m for m in models if part in get_args(_annotation(m, "kind"))]
        fields = [_annotation(m, part) for m in models]
        inner_models = [inner for annotation in fields if annotation is not None for inner in _models_in(annotation)]
        models = tagged or inner_models or models
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
