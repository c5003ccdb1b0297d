"""Tables as the page shows them: row names and means first, the best of a column bold, gains tinted, details hidden.

Without the details every table is as wide as a window of 1,280 pixels at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wsoup.core.disk.artifacts import PRETRAINED
from wsoup.evaluate.rows import BEFORE_SOUPS
from wsoup.report.means import MEANS, PLACES, is_number
from wsoup.report.tables import SIZES, Table, cell, shown_columns, signed
from wsoup.report.verdict import ALL_SEEDS, OVER

FIRST = ("model", "method", "variant", "m", "stored", "base", "new", "H", "source", *MEANS.values())
ACCURACIES = (
    "zero_shot",
    "finetuned",
    "few_shot",
    "diversity_ablation",
    "parameter_efficiency",
    "laion_source",
    "model_scaling",
)
"""Tables whose columns are accuracies of datasets."""
DIFFERENCES = {
    "verdict": ("gain",),
    "paired": ("difference",),
    "cost": tuple(f"gain, {title}" for title in PLACES.values()),
}
STRONG = 5.0
"""Points gained or lost that give a cell its full tint."""
CLASS_NAME = OVER["class_name"]
DETAILS = ("single_texts", "alignment", "accuracy_by_m")
"""Tables of details: hidden until asked for."""
VERDICT = ("soup", "over", "on", "gain", "interval", "verdict")
"""Columns of the verdict that are always shown; the others are details."""
MOST = 8
"""Columns of accuracies beyond this: single datasets are details, means are shown."""
HIDDEN = "counts"
"""Not on the page: what ``wsoup compare`` reads."""


def shown_tables(tables: Sequence[Table], *, source: str) -> list[dict[str, Any]]:
    """Tables for the template; a note is printed below the first table that has it."""
    said: set[str] = set()
    made = []
    for table in (_with_intervals(table) for table in tables if table.name != HIDDEN):
        notes = [note for note in table.notes if note not in said]
        said |= set(notes)
        made.append({**_shown(table, source=source), "notes": notes})
    return made


def _with_intervals(table: Table) -> Table:
    """Columns low and high as one, ``[+3.10, +7.90]``."""
    columns, rows = list(table.columns), [dict(row) for row in table.rows]
    for end in ("", ", other datasets"):
        low, high, interval = f"low{end}", f"high{end}", f"interval{end}"
        if low in columns:
            columns[columns.index(low)] = interval
            columns.remove(high)
            for row in rows:
                ends = row.pop(low, None), row.pop(high, None)
                row[interval] = f"[{', '.join(map(signed, ends))}]" if all(map(is_number, ends)) else ""
    return replace(table, columns=columns, rows=rows)


def _is_detail(table: Table, column: str, *, n_columns: int, source: str) -> bool:
    wide = table.name in ACCURACIES and n_columns > MOST
    return column not in VERDICT if table.name == "verdict" else wide and column not in (*FIRST, source)


def _shown(table: Table, *, source: str) -> dict[str, Any]:
    columns = _ordered(table, source=source)
    details = [_is_detail(table, column, n_columns=len(columns), source=source) for column in columns]
    lines = [row for row in table.rows if any(is_number(row.get(column)) for column in columns if column not in SIZES)]
    measured = [column for column in columns if _measured(table, column)]
    contest = [row for row in lines if not _grey(row) and not _extra(row)]
    best = {
        column: max((row[column] for row in contest if is_number(row.get(column))), default=None)
        for column in (measured if table.name in ACCURACIES else ())
    }
    rows: list[dict[str, Any]] = []
    for row in lines:
        base, wins = _base(table, lines, variant=str(row.get("variant"))), len(contest) > 1 and row in contest
        cells = [
            {
                "text": cell(row, column),
                "sort": row[column] if is_number(row.get(column)) else str(row.get(column) or ""),
                "best": wins and is_number(row.get(column)) and row[column] == best.get(column),
                "tint": _tint(table, row, column, base=base) if column in measured else 0.0,
                "detail": detail,
            }
            for column, detail in zip(columns, details, strict=True)
        ]
        rows.append({"grey": _grey(row), "extra": _extra(row), "cells": cells})
    text = [all(isinstance(row["cells"][i]["sort"], str) for row in rows) for i in range(len(columns))]
    about = {"name": table.name, "title": table.title, "extra": table.name in DETAILS}
    return {**about, "columns": list(zip(columns, text, details, strict=True)), "rows": rows}


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
    accuracies = table.name in ACCURACIES and column not in SIZES
    return accuracies or column in DIFFERENCES.get(table.name, ())


def _tint(table: Table, row: Mapping[str, Any], column: str, *, base: Mapping[str, Any]) -> float:
    """Points gained, as a share of `STRONG`: from -1 to 1."""
    value, plain = row.get(column), 0.0 if table.name in DIFFERENCES else base.get(column)
    if value is None or plain is None or not (is_number(value) and is_number(plain)):
        return 0.0
    return round(max(-1.0, min(1.0, (value - plain) / STRONG)), 2)


def _base(table: Table, rows: Sequence[Mapping[str, Any]], *, variant: str) -> Mapping[str, Any]:
    """The row of the class name alone with the same model, or with the pretrained one; nothing where there is none."""
    if table.name not in ACCURACIES:
        return {}
    name = BEFORE_SOUPS[0]
    plain = [row for row in rows if row.get("method") in (name.label, name.plain, variant)]
    by_variant = {row.get("variant"): row for row in reversed(plain)}
    return by_variant.get(variant) or by_variant.get(PRETRAINED, {})


def _extra(row: Mapping[str, Any]) -> bool:
    """Hidden until asked for: offset tricks, and what the verdict holds against others than the class name alone."""
    soup = str(row.get("soup", ALL_SEEDS))
    beside = row.get("over", CLASS_NAME) != CLASS_NAME and not soup.endswith(ALL_SEEDS)
    return beside or "offset trick" in str(row.get("method", ""))


def _grey(row: Mapping[str, Any]) -> bool:
    """Random texts and bounds: no results."""
    return str(row.get("kind", "")).startswith("random") or "upper bound" in str(row.get("method", ""))
