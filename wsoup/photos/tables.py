"""Answers as a table, and counts of them by label."""

import csv
import io
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from wsoup.disk import store
from wsoup.disk.files import defused, defused_path, shown, tamed
from wsoup.photos.classify import Prediction

MOST_CONFUSED = 3
"""Pairs of confused classes that are listed."""
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


def row_of(prediction: Prediction, *, top: int, inputs: Sequence[str]) -> dict[str, Cell]:
    """A row of predictions: path, status, class, probability, class_2, ...; then all columns of the input.

    A column of the input whose name is taken gets the prefix ``input_``, as often as it needs to be its own.
    """
    status = "not read" if prediction.problem else "ok"
    row: dict[str, Cell] = {"path": prediction.photo.path, "status": status}
    for rank in range(top):
        suffix = "" if rank == 0 else f"_{rank + 1}"
        name = probability = None
        if rank < len(prediction.classes):
            name = prediction.classes[rank]
            probability = round(prediction.probabilities[rank], 6)
        row[f"class{suffix}"] = name
        row[f"probability{suffix}"] = probability
    for name in inputs:
        column = name
        while column in row or (column != name and column in inputs):
            column = f"input_{column}"
        row[column] = prediction.photo.columns.get(name, "")
    return row


def accuracy_lines(predictions: Sequence[Prediction]) -> list[str]:
    """Accuracy of photos with labels, and the most confused classes."""
    known = [prediction for prediction in predictions if prediction.right is not None]
    if not known:
        return []
    lines = [f"accuracy {share_right(known)}"]
    confusions: Counter[str] = Counter()
    for prediction in known:
        if not prediction.right:
            confusions[f"{prediction.photo.label} as {prediction.classes[0]}"] += 1
    if confusions:
        listed = ", ".join(f"{pair} ({count})" for pair, count in confusions.most_common(MOST_CONFUSED))
        lines.append(f"most confused: {listed}")
    return lines


def share_right(predictions: Sequence[Prediction]) -> str:
    """Per cent and count of the predictions that are right, in words."""
    right = sum(prediction.right is True for prediction in predictions)
    return f"{100 * right / len(predictions):.2f} % ({right} of {len(predictions)})"
