"""What is written: tables of answers, counts of them by label, a contact sheet, and classifiers for use without wsoup.

With the arrays of an exported classifier, for image features f of length 1:

    probabilities = softmax(logit_scale f classifier)
"""

import base64
import csv
import io
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import wsoup
from wsoup.api.classify import Classifier, Prediction
from wsoup.base.errors import ModelError, needing, one_line
from wsoup.disk import store
from wsoup.disk.files import defused, defused_path, shown
from wsoup.images.decode import load_rgb
from wsoup.towers.encoder import Encoder

MOST_CONFUSED = 3
"""Pairs of confused classes that are listed."""
SIDE = 144
"""Longer side of a picture on the contact sheet, in pixels."""
MOST_PICTURES = 600
"""Pictures on a contact sheet, about equally many of each class; drawing them takes seconds, and browsers are slow."""
OPSET = 18
ERRORS = "Errors: the answer, and after it the label"
STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.4 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
h1 { font-size: 1.3rem } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem }
h2 small, p { opacity: .7; font-weight: normal }
.sheet { display: flex; flex-wrap: wrap; gap: .75rem }
figure { margin: 0; width: 150px } img { max-width: 144px; max-height: 144px; border-radius: 4px }
figcaption { font-size: .75rem; overflow-wrap: anywhere }
.wrong img { outline: 3px solid #d04040 }
"""

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
    lines = [f"accuracy {_share(known)}"] if known else []
    if wrong:
        confused = ", ".join(f"{pair} ({count})" for pair, count in wrong.most_common(MOST_CONFUSED))
        lines.append(f"most confused: {confused}")
    return lines


def _share(predictions: Sequence[Prediction]) -> str:
    right = sum(prediction.right is True for prediction in predictions)
    return f"{100 * right / len(predictions):.2f} % ({right} of {len(predictions)})"


def write_sheet(path: Path, predictions: Sequence[Prediction], *, title: str) -> None:
    """Write a contact sheet: one self-contained HTML page of small pictures, errors first, the others by their class.

    Args:
        path: the page.
        predictions: of a class the surest come first; photos that could not be read are left out.
        title: heading of the page.
    """
    groups: dict[str, list[Prediction]] = {ERRORS: []}
    for prediction in sorted((one for one in predictions if one.classes), key=lambda one: -one.probabilities[0]):
        groups.setdefault(ERRORS if prediction.right is False else prediction.classes[0], []).append(prediction)
    read = [prediction for members in groups.values() for prediction in members]
    known, each = [one for one in read if one.right is not None], max(1, MOST_PICTURES // len(groups))
    parts = [f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>"]
    parts.append(f"<h1>{escape(title)}</h1><p>{len(read):,} photos{f', {_share(known)} right' if known else ''}")
    parts.append(f"; of each group up to {each} are shown</p>")
    for name, members in groups.items():
        if members:
            figures = "".join(_figure(prediction) for prediction in members[:each])
            parts.append(f"<h2>{escape(name)} <small>{len(members):,}</small></h2><div class=sheet>{figures}</div>")
    store.write_bytes(path, "".join(parts).encode(errors="replace"))


def _figure(prediction: Prediction) -> str:
    photo, wrong = prediction.photo, prediction.right is False
    answer = f"<b>{escape(prediction.classes[0])}</b>, is {escape(str(photo.label))}<br>" if wrong else ""
    place = "/".join(Path(photo.path).parts[-2:])
    return (
        f"<figure{' class=wrong' * wrong}><img src='{_thumbnail(photo.path)}' alt='{escape(photo.path, quote=True)}'>"
        f"<figcaption>{answer}{prediction.probabilities[0]:.0%} "
        f"{escape(place)}</figcaption></figure>"
    )


def _thumbnail(path: str) -> str:
    """A small JPEG as a data URL."""
    image = load_rgb(path)
    image.thumbnail((SIDE, SIDE), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


# ------------------------------------------------------------------------------------------- for use without wsoup


def export(path: Path, classifier: Classifier, *, tower: Encoder | None) -> None:
    """Write the classifier of a soup or a head atomically, as npz for image features, or as ONNX for images.

    Args:
        path: the file.
        classifier: of a soup or a head.
        tower: the encoder whose image tower is included: ONNX takes preprocessed images (N, 3, H, W); None: npz.

    Raises:
        ModelError: the image tower cannot be exported.
        PackageError: onnx is not installed.
    """
    names = list(classifier.class_names)
    about = {"class_names": names, "made_by": f"wsoup {wsoup.__version__}", **classifier.made_of}
    file = io.BytesIO()
    if tower is None:
        weights, scale = classifier.weights.cpu().numpy(), np.float32(classifier.logit_scale).reshape(1)
        np.savez(file, classifier=weights, logit_scale=scale, class_names=np.array(names), about=np.array(_json(about)))
    else:
        metadata = {key: value if isinstance(value, str) else _json(value) for key, value in about.items()}
        file.write(_onnx(classifier, tower=tower, metadata=metadata))
    store.write_bytes(path, file.getvalue())


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


class _Whole(nn.Module):
    """Preprocessed images to logits and probabilities."""

    def __init__(self, classifier: Classifier, tower: nn.Module) -> None:
        super().__init__()
        self.tower, self.classifier = tower, classifier

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = nn.functional.normalize(self.tower.encode_image(images), dim=-1)  # type: ignore[operator]
        logits = self.classifier.logit_scale * features @ self.classifier.weights
        return logits, logits.softmax(dim=1)


def _onnx(classifier: Classifier, *, tower: Encoder, metadata: Mapping[str, str]) -> bytes:
    """The bytes of an ONNX model for any number of images."""
    example = tower.preprocess(Image.new("RGB", (64, 64)))[None].repeat(2, 1, 1, 1).to(tower.device)
    with needing():
        import onnx
        import onnxscript  # noqa: F401  torch.onnx needs it
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        try:
            torch.onnx.export(
                _Whole(classifier, tower.model).eval(),
                (example,),
                file,
                input_names=["pixels"],
                output_names=["logits", "probabilities"],
                dynamic_shapes={"images": {0: "images"}},
                opset_version=OPSET,
                external_data=False,
                verbose=False,
                dynamo=True,
            )
        except Exception as error:  # the exporter wraps errors of a tower's code in its own
            raise ModelError(
                f"the image tower cannot be exported to ONNX ({one_line(error, limit=200)}); encode images where the "
                "model runs, and use --format npz"
            ) from None
        model = onnx.load(file)
    onnx.helper.set_model_props(model, dict(metadata))
    return model.SerializeToString(deterministic=True)
