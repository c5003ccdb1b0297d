"""Tables: which rows they may have and how each is shown, and tables as CSV (one figure per cell) and as Markdown.

Labels, titles, places and order are those of figures and of the page as well. What is counted stands in
`wsoup.evaluate.rows`, so that a change here runs stage `report` alone. In Markdown and on the page a cell has ours, the
paper's and the difference.
"""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

import numpy as np

from wsoup.disk import store
from wsoup.disk.files import defused
from wsoup.evaluate.rows import (
    CLASS_NAME,
    CURVE,
    ENSEMBLE,
    GPT,
    RANDOM_CHAINS,
    RANDOM_DESCRIPTORS,
    UPPER_BOUND,
    WAFFLE,
    Method,
    in_order,
    soup_method,
)

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
class TableRow:
    """One row of a table: one way to use a method's texts.

    Attributes:
        key: key in metrics.json.
        label: label in tables, as in zero_shot.csv if the paper has the row.
        method: where the texts come from.
        mode: centroid or score_mean.
        offsets: whether each member is repeated at other token offsets.
        curve: label in the figure over m; None if not drawn.
        alone: label of a single text of the method.
        plain: label for readers who do not know the paper's name.
        m: number of members, if not the size that tables show.
    """

    key: str
    label: str
    method: Method
    mode: str = "centroid"
    offsets: bool = False
    curve: str | None = None
    alone: str | None = None
    plain: str | None = None
    m: int | None = None


BEFORE_SOUPS = (
    TableRow(
        "class_name",
        "CLIP ZS",
        CLASS_NAME,
        plain="Class name only",
    ),
    TableRow("ensemble", "Ensemble", ENSEMBLE, plain="80 prompt templates"),
    TableRow("gpt_centroids", "GPT centroids", GPT, curve="GPT centroids"),
    TableRow("gpt_score_mean", "GPT score mean", GPT, "score_mean"),
    TableRow(
        "random_descriptors",
        "Random descriptors",
        RANDOM_DESCRIPTORS,
        curve="random descriptors",
        alone="random descriptor",
    ),
    TableRow(
        "random_descriptors_offsets",
        "Random descriptors + offset trick",
        RANDOM_DESCRIPTORS,
        offsets=True,
    ),
    TableRow("waffle", "Waffle CLIP", WAFFLE, curve="Waffle"),
    TableRow("waffle_offsets", "Waffle CLIP + offset trick", WAFFLE, offsets=True),
    TableRow("random_chains", "Random word chains", RANDOM_CHAINS, alone="random chain"),
)
AFTER_SOUPS = (TableRow("upper_bound", "Descriptor soup upper bound", UPPER_BOUND),)
SOUP_LABELS = {"descriptor": "Descriptor soup", "word": "Word soup"}


def table(soups: Sequence[str]) -> tuple[TableRow, ...]:
    """All rows in the order of the paper (zero_shot.csv), including those of the soups in params.yaml.

    >>> [row.key for row in table(["word_k50"])][-4:]
    ['word_k50_soup', 'word_k50_soup_score_mean', 'word_k50_soup_offsets', 'upper_bound']
    """
    rows = [row for name in in_order(soups) for row in soup_rows(name)]
    if CURVE in soups:  # extends the word soup's curve
        rows = [replace(row, curve=None) if row.method.soup == "word" else row for row in rows]
    return (*BEFORE_SOUPS, *rows, *AFTER_SOUPS)


def soup_rows(name: str) -> tuple[TableRow, ...]:
    """Rows of one soup: centroid, score mean and offset trick.

    Soups that are not the paper's are shown wherever the word soup is, and `CURVE` only in the curve.
    """
    method, end = soup_method(name), ", all of the curve" if name == CURVE else ""
    label, title = (named("word" if end else name) for named in (soup_label, soup_title))
    centroid = TableRow(method.name, f"{label}{end}", method, curve=title, alone=None if end else title)
    key, curve = f"{method.name}_score_mean", f"{title}, score mean"
    mean = TableRow(key, f"{label} score mean{end}", method, "score_mean", curve=curve)
    offsets = TableRow(f"{method.name}_offsets", f"{label} + offset trick", method, offsets=True)
    return (centroid, mean) if end else (centroid, mean, offsets)


def soup_label(name: str) -> str:
    """Label of a soup at the start of a line: ``Word soup``, ``Soup word_k50``."""
    return SOUP_LABELS.get(name, f"Soup {name}")


def soup_title(name: str) -> str:
    """Label of a soup within a line: ``word soup``, ``soup word_k50``."""
    label = soup_label(name)
    return label[0].lower() + label[1:]


# --------------------------------------------------------------------------------------------- as CSV and Markdown


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
