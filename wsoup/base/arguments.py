"""Validate the arguments of public functions against their annotations; a wrong one is an error of one line.

`at_the_door` does it for a function, `checked_fields` for a dataclass. An annotation may carry a check of its own.
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar, get_type_hints

import numpy as np
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, ValidationInfo

from wsoup.base.errors import DataError, ParamsError, WsoupError, one_line, shown_value

P = ParamSpec("P")
R = TypeVar("R")


def at_the_door(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that its arguments are validated and converted before any work, under `usual_torch`.

    Raises:
        WsoupError: from an annotation's own check; ParamsError for a value that pydantic rejects.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def validated(*args: P.args, **kwargs: P.kwargs) -> R:
        call = signature.bind(*args, **kwargs)
        with usual_torch():
            call.arguments |= {name: _validate(function, name, value) for name, value in call.arguments.items()}
            return function(*call.args, **call.kwargs)

    return validated


@contextmanager
def usual_torch() -> Iterator[None]:
    """Within, torch has its defaults, whatever the caller set: float32, the CPU, and no autocast."""
    torch: Any = sys.modules.get("torch")  # one that is not imported has nothing set
    with ExitStack() as stack:
        if torch is not None and hasattr(torch, "get_default_device"):
            for kind in ("cpu", "cuda"):
                if torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, enabled=False))
            if torch.get_default_device().type != "cpu":
                stack.enter_context(torch.device("cpu"))
            if torch.get_default_dtype() != torch.float32:
                stack.callback(torch.set_default_dtype, torch.get_default_dtype())
                torch.set_default_dtype(torch.float32)
        yield


def checked_fields(instance: object) -> None:
    """Validate the fields of a frozen dataclass, in its `__post_init__`; raises as `at_the_door`."""
    for name, value in [*vars(instance).items()]:
        object.__setattr__(instance, name, _validate(type(instance), name, value))


@cache
def _adapters(annotated: object) -> dict[str, TypeAdapter[Any]]:
    hints = get_type_hints(annotated, include_extras=True)
    config = ConfigDict(arbitrary_types_allowed=True)
    return {name: TypeAdapter(hint, config=config) for name, hint in hints.items() if name != "return"}


def _validate(annotated: object, name: str, value: object) -> Any:
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
        expected = str(reason or EXPECTED.get(problem["type"]) or problem["msg"].replace("Input should be", "expected"))
        raise ParamsError(one_line(f"{where} is {shown_value(problem['input'])}; {expected}")) from None


# --------------------------------------------------------------------------------------------------- annotations

EXPECTED = {
    "string_pattern_mismatch": "expected plain text: it is blank, or holds NUL or another control character",
    "string_unicode": "expected plain text: it holds a lone surrogate",
}
"""What was expected, by pydantic's type of error, where its own words would mislead."""
Flag = Annotated[bool, Field(strict=True)]
Whole = Annotated[int, Field(ge=1, lt=2**63, strict=True)]
Natural = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Share = Annotated[float, Field(gt=0, lt=1, strict=True)]
Words = Annotated[str, Field(max_length=10_000, pattern=r"^[^\x00]*$")]
"""Any text of a soup; no model's context holds a tenth of these characters."""
Label = Annotated[str, Field(max_length=10_000, pattern=r"^\P{Cc}*[^\s\p{Cc}]\P{Cc}*$")]
"""A name on one line that is not blank."""


def _place(path: str | Path) -> str | Path:
    whole, name = os.fsencode(path), os.fsencode(Path(path).name)
    if b"\0" in whole or not name or len(whole) > 4000 or len(name) > 255:
        raise ValueError("expected the path of a file")
    return path


Place = Annotated[str | Path, AfterValidator(_place)]


def ordered(value: Any, info: ValidationInfo) -> list[object]:
    """The items of any ordered iterable, as a validator; else DataError."""
    try:
        if isinstance(value, (str, bytes, os.PathLike, set, frozenset)):
            raise TypeError
        return list(value)
    except TypeError:
        kind = "one string, " if isinstance(value, str) else ""
        raise DataError(f"{name_of(info)} is {kind}{shown_value(value)}; expected a list") from None


def name_of(info: ValidationInfo) -> str:
    """The name of the argument that is being validated."""
    return str((info.context or {})["name"])


Texts = Annotated[Sequence[str], BeforeValidator(ordered)]
