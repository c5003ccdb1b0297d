"""Tables of figures as CSV, one figure in a cell, and as Markdown, where a cell has ours, the paper's, the difference.

Which rows there are and what they are called stands in `wsoup.report.labels`.
"""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

import numpy as np

from wsoup.disk import store
from wsoup.disk.files import defused, tamed
from wsoup.statistics.words import signed

SIZES = ("m", "stored")
"""Columns of sizes, not accuracies."""
P = "p"
"""The column of p values: a small one reads as "< 0.001", not as 0."""
SHOWN = 0.005
"""A smaller deviation would read as 0.00; that of equal means is rounding alone."""
MARK = "*"
"""Follows a difference to the paper that is not like for like: another split of the data, or another encoder."""
HIDDEN = "counts"
"""Not on the page: ``wsoup compare`` reads it."""
TableCells = Mapping[str, object]
"""A row of a table or a point of a figure: column -> a text, a number (NaN where there is none) or None."""


@dataclass(frozen=True)
class Table:
    """A table of figures with notes.

    Attributes:
        name: its file name.
        title: the line above it.
        columns: names in order; the first columns are text.
        rows: column -> text or number.
        notes: the lines below it.
        places: decimal places of columns, where they are not the two of a percentage.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[TableCells]
    notes: Sequence[str] = ()
    places: Mapping[str, int] = field(default_factory=dict)

    def as_csv(self) -> str:
        """CSV: numbers rounded to four places, missing ones empty, texts that a spreadsheet would compute defused."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        # A column's name may come from params.yaml, so it is defused like any other text.
        writer.writerow([_in_csv(column) for column in self.columns])
        for row in self.rows:
            writer.writerow([_in_csv(row.get(column)) for column in self.columns])
        return text.getvalue()

    def as_markdown(self) -> str:
        """A Markdown table; a column ``X (paper)`` is part of the cell of column ``X``."""
        columns = shown_columns(self.columns)
        lines = [f"# {self.title}", "", _markdown_line(columns), "|" + " --- |" * len(columns)]
        for row in self.rows:
            lines.append(_markdown_line([cell(row, column, places=self.places.get(column, 2)) for column in columns]))
        for note in self.notes:
            lines += ["", note]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        """Write ``<name>.csv`` and, unless it is `HIDDEN`, ``<name>.md``."""
        store.write_bytes(folder / f"{self.name}.csv", self.as_csv().encode())
        if self.name != HIDDEN:
            store.write_bytes(folder / f"{self.name}.md", self.as_markdown().encode())


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number other than NaN; booleans are not."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int | float) and not math.isnan(value)


def mean_and_std(values: np.ndarray) -> tuple[float, float]:
    """Mean over datasets, then mean and standard deviation over seeds: (datasets, seeds) -> two numbers.

    The deviation is 0 for a single seed. Both are NaN where there is no dataset or a result is missing.
    """
    if not len(values):
        return math.nan, math.nan
    by_seed = values.mean(axis=0)
    mean = float(by_seed.mean())
    if len(by_seed) == 1:
        return mean, 0.0
    return mean, float(by_seed.std(ddof=1))


def shown_columns(columns: Sequence[str]) -> list[str]:
    """Columns without those that are part of another's cell: the paper's figures, differences and deviations."""
    return [column for column in columns if not column.endswith((" (paper)", " (diff)", " (std)"))]


def cell(row: TableCells, column: str, *, places: int = 2) -> str:
    """``69.2 ± 0.1 (69.4, -0.2)``: ours, its deviation, the paper's and the difference, where available."""
    value = row.get(column)
    if isinstance(value, str):
        return value
    if not is_number(value):
        return ""
    # A p value of 0.00 would read as certainty.
    if column == P:
        return "< 0.001" if value < 0.001 else f"{value:.3f}"
    text = f"{value:.{places}f}"
    if isinstance(value, int) or column in SIZES:
        text = f"{value:g}"
    deviation = row.get(f"{column} (std)")
    if is_number(deviation) and deviation >= SHOWN:
        text += f" ± {deviation:.{places}f}"
    interval = row.get(f"{column} (interval)", "")
    if interval:
        text += f" {interval}"
    theirs = row.get(f"{column} (paper)")
    difference = row.get(f"{column} (diff)")
    if is_number(theirs) and is_number(difference):
        mark = row.get(f"{column} (mark)", "")
        text += f" ({theirs:g}, {difference:+.{places}f}{mark})"
    return text


def interval_of(low: object, high: object) -> str:
    """``[+0.5, +3.1]``; "" where an end is missing. No end is rounded onto zero."""
    if not is_number(low) or not is_number(high):
        return ""
    return f"[{signed(low)}, {signed(high)}]"


def _markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_in_markdown, cells)) + " |"


def _in_markdown(text: str) -> str:
    r"""A cell that reads as `text`, without further columns, HTML or images.

    >>> print(_in_markdown("a | b <img src=x> ![x](y)"))
    a \| b &lt;img src=x> !\[x](y)
    """
    escaped = re.sub(r"([\\|\[])", r"\\\1", tamed(text))
    escaped = escaped.replace("<", "&lt;")
    return " ".join(escaped.split())


def _in_csv(value: object) -> object:
    if isinstance(value, str):
        on_one_line = re.sub(r"[\r\n]+", " ", value)
        return tamed(defused(on_one_line))
    if value is None:
        return ""
    if not isinstance(value, float):
        return value
    return "" if math.isnan(value) else round(value, 4)
