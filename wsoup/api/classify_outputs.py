"""Predictions as CSV, JSON lines or Parquet, as they come; and accuracy where photos have labels."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from wsoup.api.classify import Prediction
from wsoup.api.photos import Photo
from wsoup.core.disk import store
from wsoup.core.disk.cells import defused, defused_path
from wsoup.core.disk.files import check_ending, shown
from wsoup.core.errors import ParamsError, needing

MOST = 3
"""Pairs of confused classes that are named."""


def columns(prediction: Prediction, *, top: int, inputs: Sequence[str]) -> dict[str, Any]:
    """One row: path, status, class, probability, class_2, probability_2, ...; agree and members where they are known.

    Behind them stand the columns of the list that named the photo; one of the same name as one of ours is called
    ``input_...``. No text in it is a spreadsheet's formula, and all of it is UTF-8, whatever a file is called.
    """
    path = prediction.photo.path.encode(errors="backslashreplace").decode()
    row: dict[str, Any] = {"path": defused_path(path), "status": prediction.status}
    for place in range(top):
        end = "" if place == 0 else f"_{place + 1}"
        seen = place < len(prediction.classes)
        row[f"class{end}"] = defused(prediction.classes[place]) if seen else None
        row[f"probability{end}"] = round(prediction.probabilities[place], 6) if seen else None
    if prediction.agreeing is not None:
        row |= {"agree": len(prediction.agreeing), "members": defused("; ".join(prediction.agreeing))}
    given = {name: defused(prediction.photo.columns.get(name, "")) for name in inputs}
    return row | {defused(f"input_{name}" if name in row else name): value for name, value in given.items()}


@dataclass(frozen=True)
class Outputs:
    """Where predictions go.

    Attributes:
        table: a .csv or .parquet file, whole or not at all; None for stdout.
        as_json: one JSON object a line on stdout instead.
        sheet: a page of small pictures beside that; None for none.
        confusion: a .csv table of labels and answers; None for none.

    Raises:
        ParamsError: a file of another kind, or a table and JSON at once.
    """

    table: Path | None = None
    as_json: bool = False
    sheet: Path | None = None
    confusion: Path | None = None

    def __post_init__(self) -> None:
        endings = {"--out": (".csv", ".parquet"), "--html": (".html", ".htm"), "--confusion": (".csv",)}
        for option, file in self.files.items():
            check_ending(file, *endings[option], option=option)
        if self.as_json and self.table is not None:
            raise ParamsError("--json writes to stdout: leave out --out, or redirect stdout into a file")

    @property
    def files(self) -> dict[str, Path]:
        """Those that are written, by their options."""
        files = {"--out": self.table, "--html": self.sheet, "--confusion": self.confusion}
        return {option: file for option, file in files.items() if file is not None}

    def check_apart(self, inputs: Sequence[str]) -> None:
        """Raise ParamsError where a file would be replaced that is also read."""
        for option, file in self.files.items():
            if file.resolve() in [Path(place).resolve() for place in inputs]:
                raise ParamsError(f"{option} {file} is also read, and would be replaced; give another name")

    @contextmanager
    def writing(self, *, top: int, explain: bool, inputs: Sequence[str]) -> Iterator[Callable[[Prediction], object]]:
        """What takes predictions one by one, as they come; files are in place at the end."""
        if self.as_json:
            yield partial(write_json_line, file=sys.stdout)
        elif self.table is None:
            yield csv_lines(sys.stdout, top=top, explain=explain, inputs=inputs)
        elif self.table.suffix.lower() == ".csv":
            with store.replacing(self.table) as new, open(new, "w", encoding="utf-8", newline="") as file:
                yield csv_lines(file, top=top, explain=explain, inputs=inputs)
        else:
            with needing():
                import pyarrow as pa
            rows: list[dict[str, Any]] = []
            yield lambda prediction: rows.append(columns(prediction, top=top, inputs=inputs))
            store.write_table(str(self.table), pa.Table.from_pylist(rows))


def csv_lines(file: IO[str], *, top: int, explain: bool, inputs: Sequence[str]) -> Callable[[Prediction], object]:
    """Write the header; what is returned writes a row."""
    empty = Prediction(Photo(""), (), (), () if explain else None)
    writer = csv.DictWriter(file, list(columns(empty, top=top, inputs=inputs)), lineterminator="\n")
    writer.writeheader()
    terminal = file.isatty()
    return lambda prediction: writer.writerow(
        {
            column: shown(value) if terminal and isinstance(value, str) else value
            for column, value in columns(prediction, top=top, inputs=inputs).items()
        }
    )


def write_json_line(prediction: Prediction, *, file: IO[str]) -> None:
    """Write one JSON object on a line; in ASCII on a terminal, and where the stream is not UTF-8."""
    only_ascii = file.isatty() or "utf" not in str(getattr(file, "encoding", "")).lower()
    pairs = zip(prediction.classes, prediction.probabilities, strict=True)
    line: dict[str, Any] = {
        "path": prediction.photo.path,
        "status": prediction.status,
        "predictions": [{"class": name, "probability": round(chance, 6)} for name, chance in pairs],
    }
    if prediction.agreeing is not None:
        line["members"] = list(prediction.agreeing)
    if prediction.photo.columns:
        line["input"] = dict(prediction.photo.columns)
    print(json.dumps(line, ensure_ascii=only_ascii), file=file, flush=True)


class Confusion:
    """Counts of (label, answer); `add` takes them one by one."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._sure = Counter[bool | None]()

    def add(self, answer: Prediction) -> None:
        """What is said of one photo; counted where it has a label and was read."""
        if answer.photo.label is not None and answer.classes:
            self.counts[answer.photo.label, answer.classes[0]] += 1
            self._sure[answer.right] += answer.status == "ok"

    def lines(self) -> list[str]:
        """Accuracy, that of the sure photos where others are not, and the pairs confused most; empty without labels."""
        n_images = self.counts.total()
        if not n_images:
            return []
        n_correct = sum(count for (label, answer), count in self.counts.items() if label == answer)
        said = [f"accuracy {_share(n_correct, n_images)}"]
        if self._sure.total() < n_images:
            sure = self._sure.total()
            said.append(f"accuracy of the {sure} that are sure: {_share(self._sure[True], sure)}")
        pairs = [(pair, count) for pair, count in self.counts.most_common() if pair[0] != pair[1]]
        if pairs:
            named = ", ".join(f"{label} as {answer} ({count})" for (label, answer), count in pairs[:MOST])
            said.append(f"most confused: {named}")
        return said

    def write(self, path: Path, *, class_names: Sequence[str]) -> None:
        """Write a CSV table: a row for each label, a column for each answer."""
        with store.replacing(path) as new, open(new, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["label", *map(defused, class_names)])
            for label in class_names:
                writer.writerow([defused(label), *(self.counts[label, answer] for answer in class_names)])


def _share(n_correct: int, n_images: int) -> str:
    return f"{100 * n_correct / n_images:.2f} % ({n_correct} of {n_images})" if n_images else "none"
