"""Tables as CSV (one figure per cell), and as Markdown and on the page (ours, the paper's and the difference)."""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import numpy as np

from wsoup.disk import store
from wsoup.disk.files import defused

SIZES = ("m", "stored")
"""Columns of sizes, not accuracies."""
FINE = ("alignment", "uniformity")
"""Columns of small figures, shown to three decimal places."""
SHOWN = 0.005
"""A smaller deviation would read as 0.00; that of equal means is rounding alone."""
MARK = "*"
"""Follows a difference to the paper that is not like for like: another split of the data, or another encoder."""
HIDDEN = "counts"
"""Not on the page: ``wsoup compare`` reads it."""
Row = Mapping[str, object]
"""Column -> a text, a number (NaN where there is none) or None."""


@dataclass(frozen=True)
class Table:
    """A table of figures with notes.

    Attributes:
        name: its file name.
        title: the line above it.
        columns: names in order; the first columns are text.
        rows: column -> text or number.
        notes: the lines below it.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    def as_csv(self) -> str:
        """CSV: numbers rounded to four places, missing ones empty, texts that a spreadsheet would compute defused."""
        text = io.StringIO()
        rows = [dict(zip(self.columns, self.columns, strict=True)), *self.rows]
        csv.writer(text, lineterminator="\n").writerows([_plain(row.get(c)) for c in self.columns] for row in rows)
        return text.getvalue()

    def as_markdown(self) -> str:
        """A Markdown table; a column ``X (paper)`` is part of the cell of column ``X``."""
        columns = shown_columns(self.columns)
        rows = [columns, *([cell(row, column) for column in columns] for row in self.rows)]
        lines = ["| " + " | ".join(map(_in_markdown, cells)) + " |" for cells in rows]
        lines.insert(1, "|" + "|".join(" --- " for _ in columns) + "|")
        return "\n".join([f"# {self.title}", "", *lines, *(f"\n{note}" for note in self.notes)]) + "\n"

    def write(self, folder: Path) -> None:
        """Write ``<name>.csv`` and, unless it is `HIDDEN`, ``<name>.md``."""
        store.write_bytes(folder / f"{self.name}.csv", self.as_csv().encode())
        if self.name != HIDDEN:
            store.write_bytes(folder / f"{self.name}.md", self.as_markdown().encode())


def write_reports(
    folder: Path, *, tables: Sequence[Table], figures: Mapping[str, Sequence[Row]], values: Mapping[str, object]
) -> None:
    """Write tables/, plots/ and JSON files: all of them, or none if anything fails.

    Args:
        folder: reports/.
        tables: each becomes a CSV and a Markdown file.
        figures: data of each figure by name.
        values: JSON values by name of their file.
    """
    with ExitStack() as all_or_nothing:
        place = all_or_nothing.enter_context(store.replacing(folder / "tables"))
        place.mkdir()
        for table in tables:
            table.write(place)
        place = all_or_nothing.enter_context(store.replacing(folder / "plots"))
        place.mkdir()
        for name, rows in figures.items():
            store.write_json(place / f"{name}.json", rows)
        for name, value in values.items():
            store.write_json(all_or_nothing.enter_context(store.replacing(folder / f"{name}.json")), value)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number other than NaN; booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def mean_and_std(values: np.ndarray) -> tuple[float, float]:
    """Mean over datasets, then mean and standard deviation over seeds: (datasets, seeds) -> two numbers.

    The deviation is 0 for a single seed. Both are NaN where there is no dataset or a result is missing.
    """
    if not len(values):
        return float("nan"), float("nan")
    by_seed = values.mean(axis=0)
    return float(by_seed.mean()), float(by_seed.std(ddof=1)) if len(by_seed) > 1 else 0.0


def shown_columns(columns: Sequence[str]) -> list[str]:
    """Columns without those that are part of another's cell: the paper's figures, differences and deviations."""
    return [column for column in columns if not column.endswith((" (paper)", " (diff)", " (std)"))]


def cell(row: Row, column: str) -> str:
    """``69.2 ± 0.1 (69.4, -0.2)``: ours, its deviation, the paper's and the difference, where available."""
    value = row.get(column)
    if isinstance(value, str):
        return value
    if not is_number(value):
        return ""
    places = 3 if column.endswith(FINE) else 2
    text = f"{value:g}" if isinstance(value, int) or column in SIZES else f"{value:.{places}f}"
    deviation, theirs, difference = (row.get(f"{column} ({end})") for end in ("std", "paper", "diff"))
    if is_number(deviation) and deviation >= SHOWN:
        text += f" ± {deviation:.{places}f}"
    if is_number(theirs) and is_number(difference):
        text += f" ({theirs:g}, {difference:+.{places}f}{row.get(f'{column} (mark)', '')})"
    return text


def _in_markdown(text: str) -> str:
    r"""A cell that reads as `text`, without further columns, HTML or images.

    >>> print(_in_markdown("a | b <img src=x> ![x](y)"))
    a \| b &lt;img src=x> !\[x](y)
    """
    return " ".join(re.sub(r"([\\|\[])", r"\\\1", text).replace("<", "&lt;").split())


def _plain(value: object) -> object:
    if isinstance(value, str):
        return defused(re.sub(r"[\r\n]+", " ", value))
    if isinstance(value, float):
        return "" if math.isnan(value) else round(value, 4)
    return "" if value is None else value
