"""Rows as CSV, in a file or on stdout."""

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from wsoup.disk import store
from wsoup.disk.files import defused, defused_path, shown, tamed

Cell = str | int | float | None


def write_rows(file: Path | None, rows: Sequence[Mapping[str, Cell]]) -> None:
    """Write rows with the same columns as CSV, to stdout if `file` is None.

    No cell is a formula to a spreadsheet or a command to a terminal, and all text is valid UTF-8, whatever a file's
    name is.
    """
    on_terminal = file is None and sys.stdout.isatty()
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([tamed(defused(name)) for name in rows[0]])
    for row in rows:
        cells = []
        for name, value in row.items():
            cell = _safe(name, value)
            if on_terminal and isinstance(cell, str):
                cell = shown(cell)
            cells.append(cell)
        writer.writerow(cells)
    if file is None:
        sys.stdout.write(text.getvalue())
    else:
        store.write_bytes(file, text.getvalue().encode())


def _safe(column: str, cell: Cell) -> Cell:
    """A cell that no spreadsheet computes and no terminal obeys."""
    if not isinstance(cell, str):
        return cell
    text = cell.encode(errors="backslashreplace").decode()
    # Else `cat` would send the terminal a command.
    text = tamed(text)
    # A path with an apostrophe in front of it would name no file.
    if column == "path":
        return defused_path(text)
    return defused(text)
