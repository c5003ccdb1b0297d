"""Tables as the page shows them: row names and means first, the best of a column bold, gains tinted, details hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wsoup.artifacts import PRETRAINED
from wsoup.evaluate.rows import BEFORE_SOUPS
from wsoup.report.means import MEANS, is_number
from wsoup.report.tables import SIZES, Table, cell, shown_columns

FIRST = ("method", "variant", "m", "stored", "base", "new", "H", "source", *MEANS.values())
ACCURACIES = ("zero_shot", "finetuned", "few_shot", "diversity_ablation", "parameter_efficiency", "laion_source")
"""Tables whose columns are accuracies of datasets."""
DIFFERENCES = {"verdict": ("gain",), "paired": ("difference",)}
STRONG = 5.0
"""A gain of so many points has the full tint."""
DETAILS = ("single_texts", "alignment", "accuracy_by_m")
"""Tables of details: behind the toggle."""


def shown_tables(tables: Sequence[Table], *, source: str) -> list[dict[str, Any]]:
    """Tables for the template; a note that stood below one is not said again below the next."""
    said: set[str] = set()
    made = []
    for table in tables:
        notes = [note for note in table.notes if note not in said]
        said |= set(notes)
        made.append({**_shown(table, source=source), "notes": notes})
    return made


def _shown(table: Table, *, source: str) -> dict[str, Any]:
    columns = _ordered(table, source=source)
    lines = [row for row in table.rows if any(is_number(row.get(column)) for column in columns if column not in SIZES)]
    measured = [column for column in columns if _measured(table, column)]
    contest = [row for row in lines if not _grey(row)]
    best = {
        column: max((row[column] for row in contest if is_number(row.get(column))), default=None)
        for column in (measured if table.name in ACCURACIES else ())
    }
    base = _base(table, lines)
    rows = []
    for row in lines:
        cells = []
        for column in columns:
            value = row.get(column)
            tint = 0.0
            if column in measured and is_number(value):
                plain = 0.0 if table.name in DIFFERENCES else base.get(column)
                tint = max(-1.0, min(1.0, (value - plain) / STRONG)) if is_number(plain) else 0.0
            cells.append(
                {
                    "text": cell(row, column),
                    "sort": value if is_number(value) else str(value or ""),
                    "best": is_number(value) and len(contest) > 1 and not _grey(row) and value == best.get(column),
                    "tint": round(tint, 2),
                }
            )
        extra = "offset trick" in str(row.get("method", "")) and table.name != "diversity"
        rows.append({"grey": _grey(row), "extra": extra, "cells": cells})
    text = [all(isinstance(row["cells"][i]["sort"], str) for row in rows) for i in range(len(columns))]
    about = {"name": table.name, "title": table.title, "extra": table.name in DETAILS}
    return {**about, "columns": list(zip(columns, text, strict=True)), "rows": rows}


def _ordered(table: Table, *, source: str) -> list[str]:
    """Columns of their own: names first, then sizes, the source and the means, then single datasets.

    A column that says the same in every row, such as the variant where there is one, is left out.
    """
    columns = shown_columns(table.columns)
    if len({str(row.get("variant")) for row in table.rows}) == 1:
        columns = [column for column in columns if column != "variant"]
    if table.name not in ACCURACIES:
        return sorted(columns, key=lambda column: column != "method")
    first = [column for name in FIRST for column in columns if column == (source if name == "source" else name)]
    return first + [column for column in columns if column not in first]


def _measured(table: Table, column: str) -> bool:
    """Whether a column's figures are tinted and have a best one."""
    if table.name in DIFFERENCES:
        return column in DIFFERENCES[table.name]
    return table.name in ACCURACIES and column not in SIZES


def _base(table: Table, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The row of the class name alone with the pretrained encoder, or else the first one of class names alone."""
    plain = BEFORE_SOUPS[0].label
    named = [row for row in rows if row.get("method") in (plain, *(f"{row.get('variant')}",))]
    named.sort(key=lambda row: row.get("variant") != PRETRAINED)
    return named[0] if named and table.name in ACCURACIES else {}


def _grey(row: Mapping[str, Any]) -> bool:
    """Random texts and bounds: no results."""
    return str(row.get("kind", "")).startswith("random") or "upper bound" in str(row.get("method", ""))
