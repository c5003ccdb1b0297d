"""Tables as CSV (every figure in a cell of its own) and Markdown (ours, then the paper's and the difference)."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.core.disk import store
from wsoup.core.disk.cells import defused
from wsoup.report.means import is_number, mean_and_std

SIZES = ("m", "stored")
"""Columns of sizes, not accuracies."""
FINE = ("alignment", "uniformity", "KL")
"""Columns with small figures, shown to three decimal places."""
SHOWN = 0.005
"""A deviation below this would read as 0.00; that of equal means is rounding alone."""
MARK = "*"
"""Beside a difference that is not like with like: another split of the data, or another encoder."""


@dataclass(frozen=True)
class Table:
    """One table: rows of figures by column, and what stands below it.

    Attributes:
        name: its file name.
        title: one line above it.
        columns: names of the columns in order; the first ones are text.
        rows: one mapping of column -> text or number each.
        notes: lines below it.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = field(default_factory=tuple)

    def as_csv(self) -> str:
        """CSV; numbers rounded to four places, missing ones empty, texts that a spreadsheet would compute defused."""
        text = io.StringIO()
        rows = [dict(zip(self.columns, self.columns, strict=True)), *self.rows]
        csv.writer(text, lineterminator="\n").writerows([_plain(row.get(c)) for c in self.columns] for row in rows)
        return text.getvalue()

    def as_markdown(self) -> str:
        """A Markdown table; a column ``X (paper)`` is folded into the cell of column ``X``."""
        shown = shown_columns(self.columns)
        rows = [shown, *([cell(row, column) for column in shown] for row in self.rows)]
        lines = ["| " + " | ".join(map(_in_markdown, cells)) + " |" for cells in rows]
        lines.insert(1, "|" + "|".join(" --- " for _ in shown) + "|")
        return "\n".join([f"# {self.title}", "", *lines, *(f"\n{note}" for note in self.notes)]) + "\n"

    def write(self, folder: Path) -> None:
        """Write ``<name>.csv`` and ``<name>.md``."""
        for suffix, text in ((".csv", self.as_csv()), (".md", self.as_markdown())):
            store.write_bytes(Path(folder) / f"{self.name}{suffix}", text.encode())


def write_reports(
    folder: Path, *, tables: Sequence[Table], figures: Mapping[str, Sequence[Mapping[str, Any]]], metrics: Any
) -> None:
    """Write tables/, plots/ and metrics.json under `folder`: all of them, or where anything fails none.

    Args:
        folder: reports/.
        tables: each becomes a CSV and a Markdown file.
        figures: data of each figure by its name.
        metrics: JSON values.
    """
    with ExitStack() as together:  # each is put in place only when all are written
        place = together.enter_context(store.replacing(folder / "tables"))
        place.mkdir()
        for table in tables:
            table.write(place)
        place = together.enter_context(store.replacing(folder / "plots"))
        place.mkdir()
        for name, rows in figures.items():
            store.write_json(place / f"{name}.json", rows)
        store.write_json(together.enter_context(store.replacing(folder / "metrics.json")), metrics)


def with_std(columns: Iterable[str]) -> list[str]:
    """Each column, and behind it that of its deviation over seeds."""
    return [f"{column}{end}" for column in columns for end in ("", " (std)")]


def averaged(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Cells of `with_std`, from what is shown in each column: (datasets, seeds)."""
    return {
        key: figure
        for column, by_seed in values.items()
        for key, figure in zip(with_std([column]), mean_and_std(by_seed), strict=True)
    }


def signed(value: float, *, places: int = 2) -> str:
    """A difference as it is shown; one that reads as zero has no minus.

    >>> signed(1.25), signed(-0.001), signed(-0.44, places=1)
    ('+1.25', '+0.00', '-0.4')
    """
    return f"{round(value, places) + 0.0:+.{places}f}"


def shown_columns(columns: Sequence[str]) -> list[str]:
    """Columns of their own: not the paper's figures, differences and deviations that stand in another's cell."""
    return [column for column in columns if not column.endswith((" (paper)", " (diff)", " (std)"))]


def cell(row: Mapping[str, Any], column: str) -> str:
    """``69.2 ± 0.1 (69.4, -0.2)``: ours, its deviation, the paper's and the difference, as far as they are there."""
    value = row.get(column)
    if isinstance(value, str):
        return value
    if not is_number(value):
        return ""
    places = 3 if column.endswith(FINE) else 2
    text = f"{value:g}" if isinstance(value, int) or column in SIZES else f"{value:.{places}f}"
    if (deviation := row.get(f"{column} (std)", 0.0)) >= SHOWN:
        text += f" ± {deviation:.{places}f}"
    if is_number(row.get(f"{column} (paper)")):
        text += f" ({row[f'{column} (paper)']:g}, {row[f'{column} (diff)']:+.2f}{row.get(f'{column} (mark)', '')})"
    return text


def _in_markdown(text: str) -> str:
    r"""A cell as it reads, whatever stands in it: no further columns, no HTML, no images from elsewhere.

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
