"""Predictions as CSV, as JSON lines, or as a Parquet table: written as they come, but for the table."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from typing import IO, Any

from wsoup.api.classify import Prediction
from wsoup.core.errors import needing
from wsoup.disk import store
from wsoup.disk.cells import defused, defused_path


def columns(prediction: Prediction, *, top: int) -> dict[str, Any]:
    """One row: path, class, probability, class_2, probability_2, ...; agree and members where they are known.

    No text in it is a spreadsheet's formula, and all of it is UTF-8, whatever a file is called.
    """
    path = prediction.path.encode(errors="backslashreplace").decode()
    row: dict[str, Any] = {"path": defused_path(path)}
    for place in range(top):
        end = "" if place == 0 else f"_{place + 1}"
        row[f"class{end}"] = defused(prediction.classes[place])
        row[f"probability{end}"] = round(prediction.probabilities[place], 6)
    if prediction.agreeing is not None:
        row |= {"agree": len(prediction.agreeing), "members": defused("; ".join(prediction.agreeing))}
    return row


def write_csv(predictions: Iterable[Prediction], *, top: int, explain: bool, file: IO[str]) -> Iterator[Prediction]:
    """Write rows as they come, and hand the predictions on."""
    empty = Prediction("", ("",) * top, (0.0,) * top, () if explain else None)
    writer = csv.DictWriter(file, list(columns(empty, top=top)), lineterminator="\n")
    writer.writeheader()
    for prediction in predictions:
        writer.writerow(columns(prediction, top=top))
        yield prediction


def write_csv_file(predictions: Iterable[Prediction], *, top: int, explain: bool, path: str) -> Iterator[Prediction]:
    """The same into a file, whole or not at all."""
    with store.replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        yield from write_csv(predictions, top=top, explain=explain, file=file)


def write_json_lines(predictions: Iterable[Prediction], *, file: IO[str]) -> Iterator[Prediction]:
    """Write one JSON object a line as they come, and hand the predictions on; where a stream is no UTF-8, in ASCII."""
    only_ascii = "utf" not in str(getattr(file, "encoding", "")).lower()
    for prediction in predictions:
        pairs = zip(prediction.classes, prediction.probabilities, strict=True)
        line: dict[str, Any] = {
            "path": prediction.path,
            "predictions": [{"class": name, "probability": round(chance, 6)} for name, chance in pairs],
        }
        if prediction.agreeing is not None:
            line["members"] = list(prediction.agreeing)
        print(json.dumps(line, ensure_ascii=only_ascii), file=file, flush=True)
        yield prediction


def write_parquet(predictions: Iterable[Prediction], *, top: int, path: str) -> Iterator[Prediction]:
    """Hand the predictions on, then write them all as one table."""
    with needing():
        import pyarrow as pa
    rows = []
    for prediction in predictions:
        rows.append(columns(prediction, top=top))
        yield prediction
    store.write_table(path, pa.Table.from_pylist(rows))
