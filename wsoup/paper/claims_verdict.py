"""What the modules of claims share."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

PLACES = {"XD mean": "XD", "DG mean": "DG"}
"""Columns of means -> how a sentence names them."""
Lines = Sequence[Mapping[str, str]]
"""The lines of a table, by column."""


def read_lines(path: Path) -> Lines:
    """The lines of a CSV table; none if there is no such file."""
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def verdict(holds: bool) -> str:
    """Whether the figures of a run are as a claim says; noise is not looked at."""
    return "agrees" if holds else "does not agree"
