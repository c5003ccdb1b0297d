"""Sections of params.yaml, whose every key is checked.

A section has no unknown keys and does not change after loading. A key that was added to a section later has a default,
which is the behaviour without it: a params.yaml that does not name the key stays valid, and so do the results that were
made with it (`Section.meant`). A key that dvc.yaml lists by itself must be in the file, because DVC looks for it there.
"""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from wsoup.base.errors import LONGEST, ParamsError, one_line
from wsoup.base.validation import nearest
from wsoup.params.graph import listed_below
from wsoup.params.problems import clauses
from wsoup.params.reading import read_yaml

# ------------------------------------------------------------------------------------------------- types of fields

Name = Annotated[str, Field(pattern=r"^[\p{L}\p{N}][\p{L}\p{M}\p{N}_-]*$", max_length=100)]
"""A name used in stage and file names: letters and digits of any script, dash and underscore."""
PositiveInt = Annotated[int, Field(ge=1, strict=True)]
"""A count. One that multiplies memory or time also has an upper bound, far beyond any sensible use."""
NonNegativeInt = Annotated[int, Field(ge=0, strict=True)]


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not valid: it must be a number")
    return value


NO_BOOLEAN = BeforeValidator(_no_boolean)
"""For a float: true would be 1."""
Fraction = Annotated[float, Field(ge=0, le=1), NO_BOOLEAN]
Count = Annotated[PositiveInt, Field(le=10_000)]
"""Tokens, blocks or members; the model sets much lower limits."""
Iterations = Annotated[PositiveInt, Field(le=100_000_000)]
Images = Annotated[PositiveInt, Field(le=65_536)]
# The bounds keep products of several such numbers within float32.
Positive = Annotated[float, Field(gt=0, le=1e15), NO_BOOLEAN]
NonNegative = Annotated[float, Field(ge=0, le=1e15), NO_BOOLEAN]


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
    written: ClassVar[frozenset[str]] = frozenset()
    """Fields that results name even where they have their default, as they did before `meant` left such fields out."""

    def meant(self, *, mode: Literal["json", "python"] = "python", exclude: Set[str] = frozenset()) -> dict[str, Any]:
        """What a result is made with, by key of params.yaml: the values, without optional keys that have their default.

        So a result names no key that was added after it was made, unless the key changes it.

        Args:
            mode: json for values as JSON has them.
            exclude: fields to leave out.
        """
        values = self.model_dump(mode=mode, by_alias=True, exclude=set(exclude))
        for name, about in type(self).model_fields.items():
            key = about.alias or name
            value = getattr(self, name)
            is_optional = not about.is_required() and name not in self.written
            if key in values and is_optional and value == about.get_default(call_default_factory=False):
                del values[key]
            elif key in values and isinstance(value, Section):
                values[key] = value.meant(mode=mode)
        return values


def check_stated(section: Section, *, name: str, because_of: str) -> None:
    """Raise ValueError if keys that dvc.yaml lists one by one are not in the file, where DVC looks for them.

    Args:
        section: whose keys.
        name: of the section in params.yaml.
        because_of: its key that there are stages for.
    """
    left = [
        key for key in listed_below(name) if key in type(section).model_fields and key not in section.model_fields_set
    ]
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
        hint = nearest(name, known=list(entries)) if entries else "there is none"
        raise ParamsError(f"{section} has no {name!r}; {hint}")
    return entries[name]


def parse(model: type[Model], raw: Mapping[str, Any], *, origin: str) -> Model:
    """Check a mapping; `origin` names it in errors. Raises ParamsError as `load`."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        problems = clauses(error, model=model, raw=raw)
        n_more = len(problems) - SHOWN_PROBLEMS
        more = ""
        if n_more > 0:
            more = f"; and {n_more} more"
        listed = "; ".join(problems[:SHOWN_PROBLEMS])
        # Cut before the number of the others, which is said in any case.
        text = one_line(f"{origin}: {listed}", limit=LONGEST - len(more))
        raise ParamsError(text + more) from None
