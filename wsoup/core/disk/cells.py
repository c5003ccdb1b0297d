"""Cells of CSV files that a spreadsheet opens: texts stay texts."""

from __future__ import annotations

FORMULAS = (*"=+-@\t\r\n", *"＝＋－＠")
"""What a spreadsheet takes for the beginning of a formula, also in full width; behind an apostrophe it is text."""


def defused(text: str) -> str:
    """A text as a spreadsheet shows it and does not compute it.

    >>> print(defused("=1+2"), defused("has claws"))
    '=1+2 has claws
    """
    return f"'{text}" if text.startswith(FORMULAS) else text


def defused_path(path: str) -> str:
    """A path that still leads to the same file.

    >>> print(defused_path("=1.jpg"), defused_path("a/=1.jpg"))
    ./=1.jpg a/=1.jpg
    """
    return f"./{path}" if path.startswith(FORMULAS) else path
