"""Validate the arguments of public functions against their annotations; a wrong one is an error of one line.

`at_the_door` does it for a function, `checked_fields` for a dataclass. An annotation may carry a check of its own.
"""

import inspect
import os
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar, get_type_hints

import numpy as np
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, ValidationInfo

from wsoup.base.errors import DataError, ParamsError, WsoupError, one_line, shown_value

P = ParamSpec("P")
R = TypeVar("R")


def at_the_door(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that its arguments are validated and converted before any work.

    Raises:
        WsoupError: from an annotation's own check; ParamsError for a value that pydantic rejects.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def validated(*args: P.args, **kwargs: P.kwargs) -> R:
        call = signature.bind(*args, **kwargs)
        for name, value in [*call.arguments.items()]:
            call.arguments[name] = _validate(function, name, value)
        return function(*call.args, **call.kwargs)

    return validated


def checked_fields(instance: Any) -> None:
    """Validate the fields of a frozen dataclass, in its `__post_init__`; raises as `at_the_door`."""
    for name, value in [*vars(instance).items()]:
        object.__setattr__(instance, name, _validate(type(instance), name, value))


@cache
def _adapters(annotated: Any) -> dict[str, TypeAdapter[Any]]:
    hints = get_type_hints(annotated, include_extras=True)
    config = ConfigDict(arbitrary_types_allowed=True)
    return {name: TypeAdapter(hint, config=config) for name, hint in hints.items() if name != "return"}


def _validate(annotated: Any, name: str, value: Any) -> Any:
    adapter = _adapters(annotated).get(name)
    if adapter is None:
        return value
    try:
        python_value = value.item() if isinstance(value, np.generic) else value
        return adapter.validate_python(python_value, context={"name": name})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        reason = problem.get("ctx", {}).get("error")
        if isinstance(reason, WsoupError):
            raise reason from None
        where = ".".join([name, *(str(part) for part in problem["loc"] if isinstance(part, int))])
        expected = str(reason) if reason else problem["msg"].replace("Input should be", "expected")
        raise ParamsError(one_line(f"{where} is {shown_value(problem['input'])}; {expected}")) from None


# --------------------------------------------------------------------------------------------------- annotations

Flag = Annotated[bool, Field(strict=True)]
Whole = Annotated[int, Field(ge=1, lt=2**63, strict=True)]
Natural = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Share = Annotated[float, Field(gt=0, lt=1, strict=True)]


def _place(path: str | Path) -> str | Path:
    whole, name = os.fsencode(path), os.fsencode(Path(path).name)
    if b"\0" in whole or not name or len(whole) > 4000 or len(name) > 255:
        raise ValueError("expected the path of a file")
    return path


Place = Annotated[str | Path, AfterValidator(_place)]


def _unicode(text: str) -> str:
    if any(letter == "\0" or unicodedata.category(letter) == "Cs" for letter in text):
        raise ValueError(f"{text[:40]!r} is not text: it holds NUL or a lone surrogate")
    return text


Words = Annotated[str, Field(max_length=10_000), AfterValidator(_unicode)]
"""Any text of a soup; no model's context holds a tenth of these characters."""


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a name")
    return text


Label = Annotated[Words, AfterValidator(_not_blank)]
"""A name that is not blank."""


def name_of(info: ValidationInfo) -> str:
    """The name of the argument that is being validated."""
    return str((info.context or {})["name"])


def ordered(value: Any, info: ValidationInfo) -> list[Any]:
    """`listed`, as a validator."""
    return listed(value, name=name_of(info))


Texts = Annotated[Sequence[str], BeforeValidator(ordered)]


def listed(value: Any, *, name: str) -> list[Any]:
    """The items of any ordered iterable; else DataError."""
    try:
        if isinstance(value, (str, bytes, os.PathLike, set, frozenset)):
            raise TypeError
        return list(value)
    except TypeError:
        kind = "one string, " if isinstance(value, str) else ""
        raise DataError(f"{name} is {kind}{shown_value(value)}; expected a list") from None
