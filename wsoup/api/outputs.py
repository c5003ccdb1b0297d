"""Where predictions go: a table (CSV, JSON lines or Parquet), a contact sheet, and a confusion table."""

import base64
import csv
import io
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import IO, Any

from PIL import Image

from wsoup.api.classify import Prediction
from wsoup.api.photos import Photo
from wsoup.base.errors import DataError, ParamsError, needing
from wsoup.disk import store
from wsoup.disk.files import check_ending, defused, defused_path, shown
from wsoup.images.decode import load_rgb

MOST_CONFUSED = 3
"""Pairs of confused classes that are listed."""
SIDE = 144
"""Longer side of a picture on the contact sheet, in pixels."""
MOST_PICTURES = 2000
"""Pictures on a contact sheet; browsers are slow with more."""
STYLE = """
body { font: 15px/1.4 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #222 }
h1 { font-size: 1.3rem } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem }
h2 small, p { color: #666; font-weight: normal }
.sheet { display: flex; flex-wrap: wrap; gap: .75rem }
figure { margin: 0; width: 150px } img { max-width: 144px; max-height: 144px; border-radius: 4px }
figcaption { font-size: .75rem; overflow-wrap: anywhere }
.unsure img { outline: 3px solid #d99000 } .wrong img { outline: 3px solid #c03030 }
li { overflow-wrap: anywhere }
"""


def columns(prediction: Prediction, *, top: int, inputs: Sequence[str]) -> dict[str, Any]:
    """A row of the table: path, status, class, probability, class_2, ..., and agree and members if explained.

    Columns of the list that named the photo follow, with a prefix ``input_`` if the name is taken. No cell is a formula
    to a spreadsheet, and all are valid UTF-8, whatever a file's name is.
    """
    path = prediction.photo.path.encode(errors="backslashreplace").decode()
    row: dict[str, Any] = {"path": defused_path(path), "status": prediction.status}
    for rank in range(top):
        suffix = "" if rank == 0 else f"_{rank + 1}"
        known = rank < len(prediction.classes)
        row[f"class{suffix}"] = defused(prediction.classes[rank]) if known else None
        row[f"probability{suffix}"] = round(prediction.probabilities[rank], 6) if known else None
    if prediction.agreeing is not None:
        row |= {"agree": len(prediction.agreeing), "members": defused("; ".join(prediction.agreeing))}
    cells = {name: defused(prediction.photo.columns.get(name, "")) for name in inputs}
    return row | {defused(f"input_{name}" if name in row else name): cell for name, cell in cells.items()}


@dataclass(frozen=True)
class Outputs:
    """Where predictions go.

    Attributes:
        table: a .csv or .parquet file, written atomically; None: CSV on stdout.
        as_json: one JSON object per line on stdout instead.
        sheet: an .html file for the contact sheet, or None.
        confusion: a .csv file for the confusion table, or None.

    Raises:
        ParamsError: another file ending, or both a table and JSON.
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
        """Files to write, by option."""
        files = {"--out": self.table, "--html": self.sheet, "--confusion": self.confusion}
        return {option: file for option, file in files.items() if file is not None}

    def check_apart(self, inputs: Sequence[str]) -> None:
        """Raise ParamsError if an output file is also an input."""
        for option, file in self.files.items():
            if file.resolve() in [Path(path).resolve() for path in inputs]:
                raise ParamsError(f"{option} {file} is also an input, and would be replaced; give another name")

    @contextmanager
    def writing(self, *, top: int, explain: bool, inputs: Sequence[str]) -> Iterator[Callable[[Prediction], object]]:
        """A function that writes one prediction; files are complete at the end."""
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
    """Write the header, and return a function that writes a row."""
    empty = Prediction(Photo(""), agreeing=() if explain else None)
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
    """Write a JSON object on one line, in ASCII on a terminal or if the stream is not UTF-8."""
    only_ascii = file.isatty() or "utf" not in str(getattr(file, "encoding", "")).lower()
    pairs = zip(prediction.classes, prediction.probabilities, strict=True)
    line: dict[str, Any] = {
        "path": prediction.photo.path,
        "status": prediction.status,
        "predictions": [{"class": name, "probability": round(probability, 6)} for name, probability in pairs],
    }
    if prediction.agreeing is not None:
        line["members"] = list(prediction.agreeing)
    if prediction.photo.columns:
        line["input"] = dict(prediction.photo.columns)
    print(json.dumps(line, ensure_ascii=only_ascii), file=file, flush=True)


class Confusion:
    """Counts of pairs of label and answer."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._sure = Counter[bool | None]()

    def add(self, prediction: Prediction) -> None:
        """Count a prediction whose photo has a label and was read."""
        if prediction.photo.label is not None and prediction.classes:
            self.counts[prediction.photo.label, prediction.classes[0]] += 1
            self._sure[prediction.right] += prediction.status == "ok"

    def lines(self) -> list[str]:
        """Accuracy, accuracy of sure photos if some are unsure, and the most confused pairs; empty without labels."""
        n_images, n_sure = self.counts.total(), self._sure.total()
        if not n_images:
            return []
        n_correct = sum(count for (label, answer), count in self.counts.items() if label == answer)
        lines = [f"accuracy {_share(n_correct, n_images)}"]
        if n_sure < n_images:
            lines.append(f"accuracy of the {n_sure} that are sure: {_share(self._sure[True], n_sure)}")
        pairs = [(pair, count) for pair, count in self.counts.most_common() if pair[0] != pair[1]]
        if pairs:
            confused = ", ".join(f"{label} as {answer} ({count})" for (label, answer), count in pairs[:MOST_CONFUSED])
            lines.append(f"most confused: {confused}")
        return lines

    def write(self, path: Path, *, class_names: Sequence[str]) -> None:
        """Write a CSV table with a row per label and a column per answer."""
        with store.replacing(path) as new, open(new, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["label", *map(defused, class_names)])
            for label in class_names:
                writer.writerow([defused(label), *(self.counts[label, answer] for answer in class_names)])


def _share(n_correct: int, n_images: int) -> str:
    return f"{100 * n_correct / n_images:.2f} % ({n_correct} of {n_images})" if n_images else "none"


def write_sheet(
    path: str | Path, predictions: Sequence[Prediction], *, title: str, bad: Mapping[str, str], threshold: float = 0.5
) -> None:
    """Write a contact sheet: one self-contained HTML page of small pictures under their predicted classes.

    Args:
        path: the page.
        predictions: of photos that were read; within a class the surest come first.
        title: heading of the page.
        bad: what is wrong with each photo that could not be read, by path; listed at the end.
        threshold: photos below this probability are framed; those of another label are framed in red.
    """
    by_class = defaultdict(list)
    for prediction in predictions[:MOST_PICTURES]:
        by_class[prediction.classes[0]].append(prediction)
    parts = [f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>"]
    parts.append(f"<h1>{escape(title)}</h1><p>{len(predictions):,} photos in {len(by_class)} classes")
    parts.append(f"; the first {MOST_PICTURES:,} are shown" if len(predictions) > MOST_PICTURES else "")
    parts.append(f"; framed: under {threshold:.0%} sure")
    parts.append("; in red: of another class</p>" if any(p.right is False for p in predictions) else "</p>")
    for name, members in sorted(by_class.items(), key=lambda item: -len(item[1])):
        parts.append(f"<h2>{escape(name)} <small>{len(members):,}</small></h2><div class=sheet>")
        surest = sorted(members, key=lambda p: -p.probabilities[0])
        parts += [_figure(prediction, threshold=threshold) for prediction in surest]
        parts.append("</div>")
    if bad:
        lines = "".join(f"<li>{escape(text)}</li>" for text in bad.values())
        parts.append(f"<h2>Could not be read <small>{len(bad):,}</small></h2><ul>{lines}</ul>")
    store.write_bytes(path, "".join(parts).encode(errors="replace"))


def _figure(prediction: Prediction, *, threshold: float) -> str:
    photo = prediction.photo
    frame = "wrong" if prediction.right is False else "unsure" if prediction.probabilities[0] < threshold else ""
    pairs = zip(prediction.classes, prediction.probabilities, strict=True)
    ranking = ", ".join(f"{name} {probability:.0%}" for name, probability in pairs)
    caption = f"{prediction.probabilities[0]:.0%} {Path(photo.path).name}"
    caption += f", {photo.label}" if prediction.right is False else ""
    if prediction.agreeing is not None:
        ranking += f" | {len(prediction.agreeing)} members agree: {'; '.join(prediction.agreeing) or 'none'}"
    picture = _thumbnail(photo.path)
    return (
        f"<figure class='{frame}'><img src='{picture}' alt='{escape(photo.path, quote=True)}' "
        f"title='{escape(ranking, quote=True)}'><figcaption>{escape(caption)}</figcaption></figure>"
    )


def _thumbnail(path: str) -> str:
    """A small JPEG as a data URL; empty if the file cannot be read any more."""
    try:
        image = load_rgb(path)
    except DataError:
        return "data:,"
    image.thumbnail((SIDE, SIDE), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
