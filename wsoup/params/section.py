"""How params.yaml is read: YAML 1.2 as DVC reads it, then sections whose every key is checked.

A section has no unknown keys and does not change after loading. There are no hidden defaults: every key that changes
results is in the file, and an optional key (``null`` or absent) means "as the model or the layout says".

ruamel.yaml is DVC's own reader. PyYAML reads YAML 1.1, where ``k0: 010`` is 8, ``1e3`` a string and ``no`` a boolean:
a run would have other params than those DVC records.
"""

import difflib
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from wsoup.base.errors import LONGEST, SHOWN_VALUE, MissingError, ParamsError, one_line, shown_value
from wsoup.disk.files import read_text

LARGEST_FILE = 200_000
"""Characters of params.yaml; the paper's has 10,000."""
MOST_VALUES = 50_000
"""Values in params.yaml with its aliases expanded: a few lines of them can stand for 10^9."""

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


def read_yaml(path: str | Path) -> Mapping[str, Any]:
    """params.yaml as a mapping of bounded size with unique keys; nothing else is checked. Raises as `load`."""
    try:
        text = read_text(path, kind=ParamsError, largest=4 * LARGEST_FILE)  # a character has at most 4 bytes
    except MissingError:
        raise MissingError(f"{path} does not exist; write one with `wsoup profile demo --out params.yaml`") from None
    return parse_yaml(text, origin=str(path))


def parse_yaml(text: str, *, origin: str) -> Mapping[str, Any]:
    """`read_yaml` of a string, for example of another revision; `origin` names it in errors."""
    if len(text) > LARGEST_FILE:
        raise ParamsError(
            f"{origin} has {len(text):,} characters, params have {LARGEST_FILE:,} at most; is it the right file?"
        )
    try:
        node = _parsed(text)
        value = None if node is None else YAML(typ="safe", pure=True).constructor.construct_document(node)
    except (YAMLError, ValueError, RecursionError) as error:  # dates, numbers and depth that Python does not have
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        raise ParamsError(one_line(f"{origin} is not YAML{where}: {getattr(error, 'problem', error)}")) from None
    if not isinstance(value, Mapping):
        raise ParamsError(f"{origin} must hold sections (key: value), found {type(value).__name__}")
    return value


def parse(model: type[Model], raw: Mapping[str, Any], *, origin: str) -> Model:
    """Check a mapping; `origin` names it in errors. Raises ParamsError as `load`."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        # A typo is both an unknown key and a missing one: the unknown one comes first.
        problems = sorted(error.errors(), key=lambda problem: problem["type"] == "missing")
        clauses = "; ".join(_explain(problem, model=model, raw=raw) for problem in problems[:3])
        more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise ParamsError(one_line(f"{origin}: {clauses}", limit=LONGEST - len(more)) + more) from None


def _explain(problem: Any, *, model: type[BaseModel], raw: Mapping[str, Any]) -> str:
    """One pydantic error in one clause: where, the value, what was expected."""
    location = [part for part in problem["loc"] if part != "[key]"]
    where = ".".join(_keys_in_file(location, raw=raw, missing=problem["type"] == "missing")) or "params"
    where = one_line(where, limit=2 * SHOWN_VALUE)
    if problem["type"] == "extra_forbidden":
        known = _known_keys(location[:-1], model=model)
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


def _keys_in_file(location: list[Any], *, raw: Any, missing: bool) -> list[str]:
    """The keys of a location that the file has: pydantic adds which member of a union it tried."""
    keys = []
    for i, part in enumerate(location):
        held = range(len(raw)) if isinstance(raw, list) else raw if isinstance(raw, Mapping) else ()
        inside = part in held
        if inside or (missing and i == len(location) - 1):
            keys.append(str(part))
        raw = raw[part] if inside else raw
    return keys


def _known_keys(location: list[Any], *, model: type[BaseModel]) -> list[str]:
    """The keys, as written in YAML, of the section at `location`; in a union, of the `kind` in question."""
    models: list[Any] = [model]
    for part in location:
        tagged = [m for m in models if part in get_args(_fields(m).get("kind"))]
        annotations = [_fields(m).get(part) for m in models]
        inner_models = [inner for annotation in annotations for inner in _models_in(annotation)]
        models = tagged or inner_models or models
    return list(dict.fromkeys(key for m in models for key in _fields(m)))


def _fields(model: Any) -> dict[str, Any]:
    """Annotations of a model's fields by their keys in YAML."""
    return {field.alias or name: field.annotation for name, field in getattr(model, "model_fields", {}).items()}


def _models_in(annotation: Any) -> list[Any]:
    """All models in an annotation: of an optional, of a union, of the values of a dict."""
    if hasattr(annotation, "model_fields"):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


# --------------------------------------------------------------------------------------------------------- YAML 1.2


@lru_cache(maxsize=4)  # a stage reads params.yaml and dvc.yaml again and again
def _parsed(text: str) -> Node | None:
    """A YAML document before construction, checked: constructing a merged key multiplies it, too."""
    if re.search(r"(?m)^%", text):
        raise ValueError("it has a line that begins with %; params are YAML 1.2, as DVC reads them: take that line out")
    node: Node | None = YAML(typ="safe", pure=True).compose(text)
    if node is not None and _count_values(node, counts={}) > MOST_VALUES:
        raise ValueError(f"with its aliases (*name) it stands for more than {MOST_VALUES:,} values; write them out")
    return node


def _count_values(node: Node, *, counts: dict[int, int | None]) -> int:
    """Values in a node with its aliases expanded. `counts` holds those of nodes seen, None while one is being counted.

    Raises:
        ValueError: the node contains itself.
    """
    if isinstance(node, ScalarNode):
        return 1
    if id(node) not in counts:
        counts[id(node)] = None
        children = [part for pair in node.value for part in pair] if isinstance(node, MappingNode) else node.value
        counts[id(node)] = 1 + sum(_count_values(child, counts=counts) for child in children)
    if (count := counts[id(node)]) is None:
        raise ValueError(f"the value in line {node.start_mark.line + 1} holds itself by an alias (*name)")
    return count
