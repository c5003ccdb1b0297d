"""Validate the arguments of public functions against their annotations; a wrong one is an error of one line.

`at_the_door` does it for a function, `checked_fields` for a dataclass. An annotation may carry a check of its own.
"""

import ast
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import numpy as np
from pydantic import BeforeValidator, Field, PlainValidator, ValidationError, validate_call

from wsoup.base.errors import ParamsError, WsoupError, one_line, shown_value
from wsoup.base.validation import expectation, keys_in, nearest

P = ParamSpec("P")
R = TypeVar("R")


def at_the_door(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that its arguments are validated and converted before any work, under `usual_torch`.

    Raises:
        WsoupError: from an annotation's own check; ParamsError for a value that pydantic rejects.
    """
    signature = inspect.signature(function)
    known = [name for name in signature.parameters if name not in ("self", "cls")]
    checked: Callable[..., R] = validate_call(config={"arbitrary_types_allowed": True, "defer_build": True})(function)

    @wraps(function)
    def validated(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known:
                step = nearest(name, known=known)
                raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument {name!r}; {step}")
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            name = function.__qualname__.removesuffix(".__init__")
            raise TypeError(f"{name}() is called wrongly: {error}; it needs {_needed(signature)}") from None
        for name, value in given.items():
            if isinstance(value, np.generic):
                # A strict int refuses numpy's, as it refuses a string.
                given[name] = value.item()
        try:
            with usual_torch():
                return checked(**given)
        except ValidationError as error:
            raise _in_one_line(error, given=given) from None

    # What `help` shows: names of types as they are written, not what pydantic makes of them.
    validated.__signature__ = _readable(signature)  # type: ignore[attr-defined]
    return validated


def _needed(signature: inspect.Signature) -> str:
    """The arguments without a default, those that are passed by name with an ``=``: ``features, labels, model=``."""
    needed = []
    for name, parameter in signature.parameters.items():
        if name not in ("self", "cls") and parameter.default is parameter.empty:
            by_name = parameter.kind is parameter.KEYWORD_ONLY
            needed.append(f"{name}=" if by_name else name)
    return ", ".join(needed) or "none"


class _Written(str):
    """An annotation that is shown without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _readable(signature: inspect.Signature) -> inspect.Signature:
    """A signature with the types that a caller passes, in modules whose annotations are strings."""
    parameters = []
    for parameter in signature.parameters.values():
        parameters.append(parameter.replace(annotation=_written(parameter.annotation)))
    return signature.replace(parameters=parameters, return_annotation=_written(signature.return_annotation))


def _written(annotation: object) -> object:
    """``int`` for ``Whole``, and ``X`` for ``Annotated[X, ...]``; other names stand as they are."""
    if not isinstance(annotation, str):
        return annotation
    tree = _WithoutMachinery().visit(ast.parse(annotation, mode="eval"))
    return _Written(re.sub(r"\w+", lambda word: PLAIN.get(word[0], word[0]), ast.unparse(tree)))


class _WithoutMachinery(ast.NodeTransformer):
    """Takes the type out of pydantic's ``Annotated[type, ...]`` and ``InstanceOf[type]``."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:  # the name that ast looks for
        self.generic_visit(node)
        name = ast.unparse(node.value)
        if name == "InstanceOf":
            return node.slice
        if name == "Annotated" and isinstance(node.slice, ast.Tuple):
            return node.slice.elts[0]
        return node


def checked_fields(made: type[R]) -> type[R]:
    """Decorate a dataclass so that its fields are validated; they raise as the arguments of `at_the_door` do."""
    made.__init__ = at_the_door(made.__init__)  # type: ignore[method-assign]
    return made


@contextmanager
def usual_torch() -> Iterator[None]:
    """Within, torch has its defaults, whatever the caller set: float32, the CPU, and no autocast."""
    # A torch that is not imported has nothing set, and importing it would take seconds.
    torch: Any = sys.modules.get("torch")
    with ExitStack() as stack:
        if torch is not None:
            for kind in ("cpu", "cuda"):
                stack.enter_context(torch.autocast(kind, enabled=False))
            if torch.get_default_device().type != "cpu":
                stack.enter_context(torch.device("cpu"))
            stack.callback(torch.set_default_dtype, torch.get_default_dtype())
            torch.set_default_dtype(torch.float32)
        yield


def _in_one_line(error: ValidationError, *, given: Mapping[str, object]) -> WsoupError:
    """The first problem: an annotation's own error, or what was given and what was expected."""
    problem = error.errors(include_url=False)[0]
    reason = problem.get("ctx", {}).get("error")
    if isinstance(reason, WsoupError):
        return reason
    location = [part for part in problem["loc"] if part != "[key]"]
    keys = keys_in(given, location=location, missing=False)
    where = _written_place(given, keys=keys or [str(location[0])])
    expected = f"expected {expectation(problem, words=AT_THE_DOOR)}"
    if reason is not None:
        expected = str(reason)
    value = shown_value(problem["input"])
    return ParamsError(one_line(f"{where} is {value}; {expected}"))


def _written_place(given: Mapping[str, object], *, keys: Sequence[str]) -> str:
    """A part of an argument as a caller would write it: ``words[0]``, ``encoder['model']``, ``members[1].text``."""
    name, *inner = keys
    written = name
    value = given.get(name)
    for key in inner:
        if key.isdecimal():
            written += f"[{key}]"
            value = value[int(key)] if isinstance(value, Sequence) else None
        elif isinstance(value, Mapping):
            written += f"[{key!r}]"
            value = value[key]
        else:
            written += f".{key}"
            value = getattr(value, key, None)
    return written


# --------------------------------------------------------------------------------------------------- annotations

AT_THE_DOOR = {
    "bool_type": "True or False",
    "sequence_str": "a list of texts, not one text",
    "string_pattern_mismatch": "plain text: it is blank, or holds NUL or another control character",
}
"""What an argument must be, where `wsoup.base.validation` does not say it in Python: only texts have a pattern here."""
Flag = Annotated[bool, Field(strict=True)]
Whole = Annotated[int, Field(ge=1, lt=2**63, strict=True)]
Natural = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Share = Annotated[float, Field(gt=0, lt=1, strict=True)]
Words = Annotated[str, Field(max_length=10_000, pattern=r"^[^\x00]*$")]
"""Any text of a soup; no model's context holds a tenth of these characters."""


def _place(path: object) -> str | Path:
    if not isinstance(path, str | Path):
        raise ValueError("expected the path of a file")
    whole = os.fsencode(path)
    name = os.fsencode(Path(path).name)
    if b"\0" in whole or not name or len(whole) > 4000 or len(name) > 255:
        raise ValueError("expected the path of a file")
    return path


Place = Annotated[str | Path, PlainValidator(_place)]


def as_list(value: Any) -> Any:
    """An array, Series or Index of NumPy or pandas as a list, as a validator of what else is a list or a tuple."""
    package = type(value).__module__.partition(".")[0]
    # Strings of NumPy are texts themselves; pandas' arrays of strings and categories share no type but their package.
    if isinstance(value, np.ndarray) or (package == "pandas" and hasattr(value, "tolist")):
        return value.tolist()
    return value


Texts = Annotated[Sequence[str], BeforeValidator(as_list)]
PLAIN = {
    "Flag": "bool",
    "Whole": "int",
    "Natural": "int",
    "Offset": "int",
    "Share": "float",
    "AtLeast": "float",
    "Positive": "float",
    "NotNegative": "float",
    "Line": "str",
    "Lines": "tuple[str, ...]",
    "Words": "str",
    "Template": "str",
    "Place": "str | Path",
    "Texts": "Sequence[str]",
    "Names": "Sequence[str]",
    "Pool": "Sequence[str]",
    "Templates": "Sequence[str]",
    "EncoderNames": "Mapping[str, str | None]",
}
"""What a caller passes for an annotation of this library; the others' names say it."""
