"""Tables as CSV (one figure per cell), as Markdown (ours, the paper's and the difference) and as the page shows them.

On the page, row names and means come first, the best of a column is bold, gains are tinted and details are hidden;
without details every table fits into a window of 1,280 pixels.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED
from wsoup.disk.files import defused
from wsoup.report.labels import BEFORE_SOUPS
from wsoup.report.results import MEANS, PLACES, is_number, mean_and_std

SIZES = ("m", "stored")
"""Columns of sizes, not accuracies."""
FINE = ("alignment", "uniformity", "KL")
"""Columns of small figures, shown to three decimal places."""
SHOWN = 0.005
"""A smaller deviation would read as 0.00; that of equal means is rounding alone."""
MARK = "*"
"""Follows a difference to the paper that is not like for like: another split of the data, or another encoder."""

FIRST = ("model", "method", "variant", "m", "stored", "source", *MEANS.values())
"""Columns that come first on the page; `source` is the name of the source."""
ACCURACIES = (
    "zero_shot",
    "finetuned",
    "few_shot",
    "diversity_ablation",
    "parameter_efficiency",
    "laion_source",
)
"""Tables whose columns are accuracies of datasets."""
DIFFERENCES = {
    "verdict": ("gain",),
    "paired": ("difference",),
    "cost": tuple(f"gain, {title}" for title in PLACES.values()),
}
"""Columns of gains in other tables."""
FULL_TINT = 5.0
"""Points gained or lost that give a cell its full tint."""
DETAILS = ("single_texts", "alignment", "accuracy_by_m")
"""Tables hidden until asked for."""
VERDICT = ("soup", "over", "on", "gain", "interval", "verdict")
"""Columns of the verdict that are always shown; the others are details."""
WIDE = 8
"""In tables of accuracies with more columns, single datasets are details and means are shown."""
HIDDEN = "counts"
"""Not on the page: ``wsoup compare`` reads it."""


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
    rows: Sequence[Mapping[str, Any]]
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
        """Write ``<name>.csv`` and ``<name>.md``."""
        for suffix, text in ((".csv", self.as_csv()), (".md", self.as_markdown())):
            store.write_bytes(Path(folder) / f"{self.name}{suffix}", text.encode())


def write_reports(
    folder: Path, *, tables: Sequence[Table], figures: Mapping[str, Sequence[Mapping[str, Any]]], metrics: Any
) -> None:
    """Write tables/, plots/ and metrics.json: all of them, or none if anything fails.

    Args:
        folder: reports/.
        tables: each becomes a CSV and a Markdown file.
        figures: data of each figure by name.
        metrics: JSON values.
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
        store.write_json(all_or_nothing.enter_context(store.replacing(folder / "metrics.json")), metrics)


def with_std(columns: Iterable[str]) -> list[str]:
    """Each column, followed by the one of its deviation over seeds."""
    return [f"{column}{end}" for column in columns for end in ("", " (std)")]


def averaged(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The cells of `with_std`, from an array (datasets, seeds) per column."""
    return {
        key: figure
        for column, by_seed in values.items()
        for key, figure in zip(with_std([column]), mean_and_std(by_seed), strict=True)
    }


def signed(value: float, *, places: int = 2) -> str:
    """A difference with its sign; one that reads as zero has no minus.

    >>> signed(1.25), signed(-0.001), signed(-0.44, places=1)
    ('+1.25', '+0.00', '-0.4')
    """
    return f"{round(value, places) + 0.0:+.{places}f}"


def shown_columns(columns: Sequence[str]) -> list[str]:
    """Columns without those that are part of another's cell: the paper's figures, differences and deviations."""
    return [column for column in columns if not column.endswith((" (paper)", " (diff)", " (std)"))]


def cell(row: Mapping[str, Any], column: str) -> str:
    """``69.2 ± 0.1 (69.4, -0.2)``: ours, its deviation, the paper's and the difference, where available."""
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
        text += (
            f" ({row[f'{column} (paper)']:g}, {row[f'{column} (diff)']:+.{places}f}{row.get(f'{column} (mark)', '')})"
        )
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


# ------------------------------------------------------------------------------------------------- on the page


def page_tables(tables: Sequence[Table], *, source: str) -> list[dict[str, Any]]:
    """Tables for the page's template; a note is printed once, below the first table that has it.

    Args:
        tables: of the run.
        source: name of the source dataset.
    """
    printed: set[str] = set()
    on_page = []
    for table in map(_with_intervals, (table for table in tables if table.name != HIDDEN)):
        notes = [note for note in table.notes if note not in printed]
        printed |= set(notes)
        on_page.append({**_on_page(table, source=source), "notes": notes})
    return on_page


def _with_intervals(table: Table) -> Table:
    """Columns low and high as one, ``[+3.10, +7.90]``."""
    ends = [end for end in ("", ", other datasets") if {f"low{end}", f"high{end}"} <= set(table.columns)]
    renamed = {f"low{end}": f"interval{end}" for end in ends}
    columns = [renamed.get(column, column) for column in table.columns if column not in [f"high{end}" for end in ends]]
    rows = [{**row, **{f"interval{end}": _interval(row, end=end) for end in ends}} for row in table.rows]
    return replace(table, columns=columns, rows=rows)


def _interval(row: Mapping[str, Any], *, end: str) -> str:
    bounds = [row.get(f"{bound}{end}", math.nan) for bound in ("low", "high")]
    return f"[{', '.join(map(signed, bounds))}]" if all(map(is_number, bounds)) else ""


def _on_page(table: Table, *, source: str) -> dict[str, Any]:
    columns = _ordered(table, source=source)
    wide = table.name in ACCURACIES and len(columns) > WIDE
    always = VERDICT if table.name == "verdict" else (*FIRST, source) if wide else columns
    rows = [row for row in table.rows if any(is_number(row.get(column)) for column in columns if column not in SIZES)]
    accuracies = [column for column in columns if column not in SIZES] if table.name in ACCURACIES else []
    tinted = accuracies or DIFFERENCES.get(table.name, ())
    ranked = [row for row in rows if not _is_grey(row) and not _is_extra(row)]
    best = {
        column: max((row[column] for row in ranked if is_number(row.get(column))), default=None)
        for column in (accuracies if len(ranked) > 1 else ())
    }
    lines = []
    for row in rows:
        base = _base(table, rows, variant=str(row.get("variant")))
        cells = [
            {
                "text": cell(row, column),
                "sort": row[column] if is_number(row.get(column)) else str(row.get(column) or ""),
                "best": row in ranked and is_number(row.get(column)) and row[column] == best.get(column),
                "tint": _tint(row.get(column), base=base.get(column)) if column in tinted else 0.0,
                "detail": column not in always,
            }
            for column in columns
        ]
        lines.append({"grey": _is_grey(row), "extra": _is_extra(row), "cells": cells})
    texts = [not any(is_number(row.get(column)) for row in rows) for column in columns]
    heads = [(column, text, column not in always) for column, text in zip(columns, texts, strict=True)]
    about = {"name": table.name, "title": table.title, "extra": table.name in DETAILS}
    return {**about, "columns": heads, "rows": lines}


def _ordered(table: Table, *, source: str) -> list[str]:
    """Columns on the page: names first, then sizes, the source and the means, then single datasets.

    A `variant` that is the same in every row is left out.
    """
    columns = shown_columns(table.columns)
    if len({str(row.get("variant")) for row in table.rows}) == 1:
        columns = [column for column in columns if column != "variant"]
    if table.name not in ACCURACIES:
        return sorted(columns, key=lambda column: column != "method")
    first = [name for name in (source if name == "source" else name for name in FIRST) if name in columns]
    return first + [column for column in columns if column not in first]


def _tint(value: object, *, base: object) -> float:
    """Points gained over the base, as a share of `FULL_TINT`: from -1 to 1."""
    if not (isinstance(value, int | float) and isinstance(base, int | float)) or not math.isfinite(value - base):
        return 0.0
    return round(max(-1.0, min(1.0, (value - base) / FULL_TINT)), 2)


def _base(table: Table, rows: Sequence[Mapping[str, Any]], *, variant: str) -> Mapping[str, Any]:
    """What a row's tints are relative to: zero for gains, else the class name with the same or the pretrained model."""
    if table.name not in ACCURACIES:
        return dict.fromkeys(DIFFERENCES.get(table.name, ()), 0.0)
    class_name = BEFORE_SOUPS[0]
    candidates = [row for row in rows if row.get("method") in (class_name.label, class_name.plain, variant)]
    by_variant = {row.get("variant"): row for row in reversed(candidates)}
    return by_variant.get(variant) or by_variant.get(PRETRAINED, {})


def _is_extra(row: Mapping[str, Any]) -> bool:
    """Hidden until asked for: offset tricks, and rows that their table marks as such."""
    return bool(row.get("is extra")) or "offset trick" in str(row.get("method", ""))


def _is_grey(row: Mapping[str, Any]) -> bool:
    """Random texts and bounds: no results."""
    return str(row.get("kind", "")).startswith("random") or "upper bound" in str(row.get("method", ""))
