"""reports/ on disk: all of a report, or none of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from wsoup.disk import store
from wsoup.report.tables import Table


def write_reports(
    folder: Path, *, tables: Sequence[Table], figures: Mapping[str, Sequence[Mapping[str, Any]]], metrics: Any
) -> None:
    """Write tables/, plots/ and metrics.json under `folder`; where anything fails, those of before are left.

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
