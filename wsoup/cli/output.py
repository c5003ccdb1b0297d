"""What commands print: nothing that stands in a text, a path or a file reaches a terminal as an order to it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from wsoup.core.disk.files import shown

UNCUT = 100_000
"""Columns off a terminal (a file, a pipe), where rich would take 80 and cut tables."""


class Terminal(Console):
    """rich's console, on which escape sequences that are not rich's own are shown as they are written.

    As wide as the terminal; off a terminal (a file, a pipe) as wide as what is printed.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(**{"width": None if sys.stdout.isatty() else UNCUT, **how})

    def render_str(self, text: str, **how: Any) -> Text:
        """As `Console.render_str`: texts are measured as they are shown."""
        return super().render_str(visible(text), **how)

    def render(self, *args: Any, **kwargs: Any) -> Iterable[Segment]:
        """As `Console.render`, which all that is printed goes through."""
        for text, style, control in super().render(*args, **kwargs):
            yield Segment(text if control else visible(text), style, control)


def visible(text: str) -> str:
    r"""A text as a terminal may have it, its lines kept.

    >>> visible("a\x1b]0;title\x07\nb")
    'a\\x1b]0;title\\x07\nb'
    """
    return "\n".join(map(shown, text.split("\n")))


def put(text: str) -> None:
    """Print a text as it is; on a terminal, as it may be shown there."""
    print(visible(text) if sys.stdout.isatty() else text, end="")
