"""Arguments of the functions that people call, checked at the door: each is what its annotation says, or one line.

A kind of argument is an annotation with its check; `at_the_door` reads them off a signature, and `checked_fields` off a
dataclass.
"""

from __future__ import annotations

import inspect
import os
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar, get_type_hints

import numpy as np
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, ValidationInfo

from wsoup.core import prompts
from wsoup.core.errors import DataError, ParamsError, WsoupError, one_line, shown_value

P = ParamSpec("P")
R = TypeVar("R")


def at_the_door(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose arguments are checked before any work, and made what their annotations say.

    Raises:
        WsoupError: what a kind's own check raises, and ParamsError where pydantic refuses a value.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def checked_first(*args: P.args, **kwargs: P.kwargs) -> R:
        call = signature.bind(*args, **kwargs)
        for name, value in [*call.arguments.items()]:
            call.arguments[name] = _checked(function, name, value)
        return function(*call.args, **call.kwargs)

    return checked_first


def checked_fields(made: Any) -> None:
    """The same for the fields of a frozen dataclass, in its `__post_init__`."""
    for name, value in [*vars(made).items()]:
        object.__setattr__(made, name, _checked(type(made), name, value))


@cache
def _kinds(annotated: Any) -> dict[str, TypeAdapter[Any]]:
    hints = get_type_hints(annotated, include_extras=True)
    config = ConfigDict(arbitrary_types_allowed=True)
    return {name: TypeAdapter(kind, config=config) for name, kind in hints.items() if name != "return"}


def _checked(annotated: Any, name: str, value: Any) -> Any:
    kind = _kinds(annotated).get(name)
    if kind is None:
        return value
    try:
        plain = value.item() if isinstance(value, np.generic) else value
        return kind.validate_python(plain, context={"name": name})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        reason = problem.get("ctx", {}).get("error")
        if isinstance(reason, WsoupError):
            raise reason from None
        where = ".".join([name, *(str(part) for part in problem["loc"] if isinstance(part, int))])
        said = str(reason) if reason else problem["msg"].replace("Input should be", "expected")
        raise ParamsError(one_line(f"{where} is {shown_value(problem['input'])}; {said}")) from None


def _place(path: str | Path) -> str | Path:
    whole, name = os.fsencode(path), os.fsencode(Path(path).name)
    if b"\0" in whole or not name or len(whole) > 4000 or len(name) > 255:
        raise ValueError("expected the path of a file")
    return path


Place = Annotated[str | Path, AfterValidator(_place)]


def name_of(info: ValidationInfo) -> str:
    """What the argument that a kind looks at is called."""
    return str((info.context or {})["name"])


Flag = Annotated[bool, Field(strict=True)]
Whole = Annotated[int, Field(ge=1, lt=2**63, strict=True)]
Natural = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Share = Annotated[float, Field(gt=0, lt=1, strict=True)]


def speakable(text: str) -> str:
    """A text itself; ValueError where it holds NUL or half a character."""
    if any(letter == "\0" or unicodedata.category(letter) == "Cs" for letter in text):
        raise ValueError(f"{text[:40]!r} is not text: it holds NUL or half a character")
    return text


Words = Annotated[str, Field(max_length=10_000), AfterValidator(speakable)]
"""Any text of a soup; no model's context holds a tenth of the letters."""


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a name")
    return text


Label = Annotated[Words, AfterValidator(_not_blank)]
"""A name that a caller gives to something."""
Template = Annotated[Words, AfterValidator(prompts.checked)]


def ordered(value: Any, info: ValidationInfo) -> list[Any]:
    return listed(value, name=name_of(info))


Texts = Annotated[Sequence[str], BeforeValidator(ordered)]


def listed(value: Any, *, name: str) -> list[Any]:
    """The parts of anything that has an order; else DataError."""
    try:
        if isinstance(value, (str, bytes, os.PathLike, set, frozenset)):
            raise TypeError
        return list(value)
    except TypeError:
        kind = "one string, " if isinstance(value, str) else ""
        raise DataError(f"{name} is {kind}{shown_value(value)}; expected a list") from None
