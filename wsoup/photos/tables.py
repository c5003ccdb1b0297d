"""Answers as a table, and counts of them by label."""

import csv
import io
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from wsoup.disk import store
from wsoup.disk.files import defused, defused_path, shown
from wsoup.photos.classify import Prediction

MOST_CONFUSED = 3
"""Pairs of confused classes that are listed."""
Cell = str | int | float | None


def write_rows(file: Path | None, rows: Sequence[Mapping[str, Cell]]) -> None:
    """Write rows with the same columns as CSV, to stdout if `file` is None.

    No cell is a formula to a spreadsheet or a command to a terminal, and all text is valid UTF-8, whatever a file's
    name is.
    """
    text, shows = io.StringIO(newline=""), file is None and sys.stdout.isatty()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([defused(name) for name in rows[0]])
    for row in rows:
        cells = [_text(name, cell) for name, cell in row.items()]
        writer.writerow([shown(cell) if shows and isinstance(cell, str) else cell for cell in cells])
    if file is None:
        sys.stdout.write(text.getvalue())
    else:
        store.write_bytes(file, text.getvalue().encode())


def _text(column: str, cell: Cell) -> Cell:
    if not isinstance(cell, str):
        return cell
    text = cell.encode(errors="backslashreplace").decode()
    text = text.replace("\x1b", "\\x1b")  # else `cat` would send the terminal a command
    return defused_path(text) if column == "path" else defused(text)


def row_of(prediction: Prediction, *, top: int, inputs: Sequence[str]) -> dict[str, Cell]:
    """A row of predictions: path, status, class, probability, class_2, ...; then all columns of the input.

    A column of the input whose name is taken gets the prefix ``input_``, as often as it needs to be its own.
    """
    row: dict[str, Cell] = {"path": prediction.photo.path, "status": "not read" if prediction.problem else "ok"}
    for rank in range(top):
        suffix = "" if rank == 0 else f"_{rank + 1}"
        known = rank < len(prediction.classes)
        row[f"class{suffix}"] = prediction.classes[rank] if known else None
        row[f"probability{suffix}"] = round(prediction.probabilities[rank], 6) if known else None
    for name in inputs:
        column = name
        while column in row or (column != name and column in inputs):
            column = f"input_{column}"
        row[column] = prediction.photo.columns.get(name, "")
    return row


def accuracy_lines(predictions: Sequence[Prediction]) -> list[str]:
    """Accuracy of photos with labels, and the most confused classes."""
    known = [prediction for prediction in predictions if prediction.right is not None]
    wrong = Counter(f"{one.photo.label} as {one.classes[0]}" for one in known if not one.right)
    lines = [f"accuracy {share_right(known)}"] if known else []
    if wrong:
        confused = ", ".join(f"{pair} ({count})" for pair, count in wrong.most_common(MOST_CONFUSED))
        lines.append(f"most confused: {confused}")
    return lines


def share_right(predictions: Sequence[Prediction]) -> str:
    """Per cent and count of the predictions that are right, in words."""
    right = sum(prediction.right is True for prediction in predictions)
    return f"{100 * right / len(predictions):.2f} % ({right} of {len(predictions)})"
