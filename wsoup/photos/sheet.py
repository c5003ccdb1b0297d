"""A contact sheet: one page of small pictures with their answers."""

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path

from PIL import Image

from wsoup.base.number_of import number_of
from wsoup.disk import store
from wsoup.disk.files import tamed
from wsoup.images.decode import load_rgb
from wsoup.photos.classify import Prediction
from wsoup.photos.tables import share_right

SIDE = 144
"""Longer side of a picture on the contact sheet, in pixels."""
MOST_PICTURES = 600
"""Pictures on a contact sheet, about equally many of each class; drawing them takes seconds, and browsers are slow."""
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


def write_sheet(path: Path, predictions: Sequence[Prediction], *, title: str) -> None:
    """Write a contact sheet: one self-contained HTML page of small pictures, errors first, the others by their class.

    Args:
        path: the page.
        predictions: of a class the surest come first; photos that could not be read are left out.
        title: heading of the page.
    """
    answered = [prediction for prediction in predictions if prediction.classes]
    answered.sort(key=lambda prediction: -prediction.probabilities[0])
    # Errors come first, since they are what somebody opens the page for.
    groups: dict[str, list[Prediction]] = {ERRORS: []}
    for prediction in answered:
        group = ERRORS if prediction.right is False else prediction.classes[0]
        groups.setdefault(group, []).append(prediction)
    shown_of_group = max(1, MOST_PICTURES // len(groups))
    summary = number_of(len(answered), "photo")
    labelled = [prediction for prediction in answered if prediction.right is not None]
    if labelled:
        summary += f", {share_right(labelled)} right"
    summary += f"; of each group up to {shown_of_group} are shown"
    parts = [
        f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>",
        f"<h1>{escape(title)}</h1><p>{summary}</p>",
    ]
    for name, members in groups.items():
        if members:
            figures = "".join(_figure(prediction) for prediction in members[:shown_of_group])
            parts.append(f"<h2>{escape(name)} <small>{len(members):,}</small></h2><div class=sheet>{figures}</div>")
    store.write_bytes(path, tamed("".join(parts)).encode(errors="replace"))


def _figure(prediction: Prediction) -> str:
    photo = prediction.photo
    attributes = ""
    answer = ""
    if prediction.right is False:
        attributes = " class=wrong"
        answer = f"<b>{escape(prediction.classes[0])}</b>, is {escape(str(photo.label))}<br>"
    place = "/".join(Path(photo.path).parts[-2:])
    return (
        f"<figure{attributes}><img src='{_thumbnail(photo.path)}' alt='{escape(photo.path, quote=True)}'>"
        f"<figcaption>{answer}{prediction.probabilities[0]:.0%} {escape(place)}</figcaption></figure>"
    )


def _thumbnail(path: str) -> str:
    """A small JPEG as a data URL."""
    image = load_rgb(path)
    image.thumbnail((SIDE, SIDE), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
