"""What is written about photos: tables of rows, counts of answers by label, and a contact sheet."""

import base64
import csv
import io
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from html import escape
from pathlib import Path

from PIL import Image

from wsoup.api.classify import Prediction
from wsoup.base.errors import DataError, needing
from wsoup.disk import store
from wsoup.disk.files import defused, defused_path, shown
from wsoup.images.decode import load_rgb

MOST_CONFUSED = 3
"""Pairs of confused classes that are listed."""
SIDE = 144
"""Longer side of a picture on the contact sheet, in pixels."""
MOST_PICTURES = 2000
"""Pictures on a contact sheet; browsers are slow with more."""
STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.4 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
h1 { font-size: 1.3rem } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem }
h2 small, p { opacity: .7; font-weight: normal }
.sheet { display: flex; flex-wrap: wrap; gap: .75rem }
figure { margin: 0; width: 150px } img { max-width: 144px; max-height: 144px; border-radius: 4px }
figcaption { font-size: .75rem; overflow-wrap: anywhere }
.unsure img { outline: 3px solid #d99000 } .wrong img { outline: 3px solid #d04040 }
li { overflow-wrap: anywhere }
"""

Cell = str | int | float | None
Row = Mapping[str, Cell]


@contextmanager
def rows_to(file: Path | None) -> Iterator[Callable[[Row], None]]:
    """A function that writes a row with the same columns as the first one.

    A file is complete at the end, .csv or .parquet; None is stdout, row by row. No cell of a CSV is a formula to a
    spreadsheet, and all text is valid UTF-8, whatever a file's name is.
    """
    if file is not None and file.suffix.lower() == ".parquet":
        with needing():
            import pyarrow as pa
        rows: list[Row] = []
        yield lambda row: rows.append({name: _text(name, cell) for name, cell in row.items()})
        store.write_table(str(file), pa.Table.from_pylist(rows))
        return
    writing = nullcontext(None) if file is None else store.replacing(file)
    with (
        writing as new,
        nullcontext(sys.stdout) if new is None else open(new, "w", encoding="utf-8", newline="") as out,
    ):
        writer, terminal = csv.writer(out, lineterminator="\n"), out.isatty()
        begun: list[bool] = []

        def write(row: Row) -> None:
            if not begun:
                writer.writerow([defused(name) for name in row])
                begun.append(True)
            cells = [_text(name, cell) for name, cell in row.items()]
            writer.writerow([shown(cell) if terminal and isinstance(cell, str) else cell for cell in cells])

        yield write


def _text(column: str, cell: Cell) -> Cell:
    if not isinstance(cell, str):
        return cell
    text = cell.encode(errors="backslashreplace").decode()
    return defused_path(text) if column == "path" else defused(text)


def row_of(prediction: Prediction, *, top: int, inputs: Sequence[str]) -> dict[str, Cell]:
    """A row of predictions: path, status, class, probability, class_2, ...; then all columns of the input.

    A column of the input whose name is taken gets the prefix ``input_``, as often as it needs to be its own.
    """
    row: dict[str, Cell] = {"path": prediction.photo.path, "status": prediction.status}
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

    def write(self, file: Path, *, class_names: Sequence[str]) -> None:
        """Write a CSV table with a row per label and a column per answer."""
        first = "label" if "label" not in class_names else "input_label"
        with rows_to(file) as write:
            for label in class_names:
                write({first: label, **{answer: self.counts[label, answer] for answer in class_names}})


def _share(n_correct: int, n_images: int) -> str:
    return f"{100 * n_correct / n_images:.2f} % ({n_correct} of {n_images})" if n_images else "none"


def write_sheet(
    path: str | Path, predictions: Sequence[Prediction], *, title: str, bad: Mapping[str, str], threshold: float = 0.5
) -> None:
    """Write a contact sheet: one self-contained HTML page of small pictures, errors first, the others by their class.

    Args:
        path: the page.
        predictions: of photos that were read; within a class the surest come first.
        title: heading of the page.
        bad: what is wrong with each photo that could not be read, by path; listed at the end.
        threshold: photos below this probability are framed; those of another label are framed in red.
    """
    groups = defaultdict(list)
    wrong = [prediction for prediction in predictions if prediction.right is False]
    groups["Errors: the answer, and after it the label"] = wrong
    for prediction in predictions:
        if prediction.right is not False:
            groups[prediction.classes[0]].append(prediction)
    known = sum(prediction.right is not None for prediction in predictions)
    parts = [f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>"]
    parts.append(f"<h1>{escape(title)}</h1><p>{len(predictions):,} photos")
    parts.append(f", {_share(known - len(wrong), known)} right" if known else "")
    parts.append(f"; the first {MOST_PICTURES:,} are shown" if len(predictions) > MOST_PICTURES else "")
    parts.append(f"; framed: under {threshold:.0%} sure</p>")
    left = MOST_PICTURES
    for name, members in groups.items():
        surest = sorted(members, key=lambda p: -p.probabilities[0])[:left]
        left -= len(surest)
        if surest:
            figures = "".join(_figure(prediction, threshold=threshold) for prediction in surest)
            parts.append(f"<h2>{escape(name)} <small>{len(members):,}</small></h2><div class=sheet>{figures}</div>")
    if bad:
        lines = "".join(f"<li>{escape(text)}</li>" for text in bad.values())
        parts.append(f"<h2>Could not be read <small>{len(bad):,}</small></h2><ul>{lines}</ul>")
    store.write_bytes(path, "".join(parts).encode(errors="replace"))


def _figure(prediction: Prediction, *, threshold: float) -> str:
    photo, wrong = prediction.photo, prediction.right is False
    frame = "wrong" if wrong else "unsure" if prediction.probabilities[0] < threshold else ""
    pairs = zip(prediction.classes, prediction.probabilities, strict=True)
    ranking = ", ".join(f"{name} {probability:.0%}" for name, probability in pairs)
    answer = f"<b>{escape(prediction.classes[0])}</b>, is {escape(str(photo.label))}<br>" if wrong else ""
    place = "/".join(Path(photo.path).parts[-2:])
    return (
        f"<figure class='{frame}'><img src='{_thumbnail(photo.path)}' alt='{escape(photo.path, quote=True)}' "
        f"title='{escape(ranking, quote=True)}'><figcaption>{answer}{prediction.probabilities[0]:.0%} "
        f"{escape(place)}</figcaption></figure>"
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
