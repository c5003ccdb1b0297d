"""Tables of inputs with what is said of each: one test tries a whole table, and shows every row that is otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from wsoup.base.errors import LONGEST, WsoupError

Given = TypeVar("Given")
Answer = TypeVar("Answer")


def unsaid(
    table: Iterable[tuple[Given, str | re.Pattern[str]]], call: Callable[[Given], object], *, file: str = ""
) -> list[object]:
    """The inputs that are not refused in one line with `file` and the text beside them, each with what is said."""
    otherwise: list[object] = []
    for given, expected in table:
        try:
            said = f"accepted: {call(given)!r}"
        except WsoupError as error:
            said = str(error)
            is_said = expected.search(said) if isinstance(expected, re.Pattern) else expected in said
            if is_said and file in said and said.isprintable() and len(said) <= LONGEST:
                continue
        otherwise.append((given, said))
    return otherwise


def unlike(table: Iterable[tuple[Given, Answer]], call: Callable[[Given], Answer]) -> list[object]:
    """The inputs whose answer is not the one beside them, each with the answer or the error that it has instead."""
    otherwise: list[object] = []
    for given, expected in table:
        answer: object
        try:
            answer = call(given)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        if answer != expected:
            otherwise.append((given, answer))
    return otherwise
