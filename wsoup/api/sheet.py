"""A contact sheet: one page of small pictures under the class that each was given, for looking rather than reading."""

from __future__ import annotations

import base64
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from PIL import Image

from wsoup.api.classify import Prediction
from wsoup.core.disk.store import write_bytes
from wsoup.core.errors import DataError
from wsoup.images.decode import load_rgb

SIDE = 144
"""Pixels of a picture's longer side."""
MOST = 2000
"""Pictures on one page; more would make a page that no browser likes."""
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


def write_sheet(
    path: str | Path, predictions: Iterable[Prediction], *, title: str, bad: Mapping[str, str], threshold: float = 0.5
) -> None:
    """Write one self-contained HTML page.

    Args:
        path: the page.
        predictions: of photos that were read; within a class the surest come first.
        title: what stands above.
        bad: error text of photos that could not be read, by path; listed at the end.
        threshold: photos under this probability are framed; those whose label is another are framed in red.
    """
    by_class = defaultdict(list)
    every = list(predictions)
    for prediction in every[:MOST]:
        by_class[prediction.classes[0]].append(prediction)
    parts = [f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>"]
    parts.append(f"<h1>{escape(title)}</h1><p>{len(every):,} photos in {len(by_class)} classes")
    parts.append(f"; the first {MOST:,} are shown" if len(every) > MOST else "")
    parts.append(f"; framed: under {threshold:.0%} sure")
    parts.append("; in red: of another class</p>" if any(p.right is False for p in every) else "</p>")
    for name, members in sorted(by_class.items(), key=lambda item: -len(item[1])):
        parts.append(f"<h2>{escape(name)} <small>{len(members):,}</small></h2><div class=sheet>")
        surest = sorted(members, key=lambda p: -p.probabilities[0])
        parts += [_figure(prediction, threshold=threshold) for prediction in surest]
        parts.append("</div>")
    if bad:
        lines = "".join(f"<li>{escape(text)}</li>" for text in bad.values())
        parts.append(f"<h2>Could not be read <small>{len(bad):,}</small></h2><ul>{lines}</ul>")
    write_bytes(path, "".join(parts).encode(errors="replace"))


def _figure(prediction: Prediction, *, threshold: float) -> str:
    photo = prediction.photo
    frame = "wrong" if prediction.right is False else "unsure" if prediction.probabilities[0] < threshold else ""
    ranking = ", ".join(
        f"{name} {chance:.0%}" for name, chance in zip(prediction.classes, prediction.probabilities, strict=True)
    )
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
    """A small JPEG as a data URL; empty where the file is gone by now."""
    try:
        image = load_rgb(path)
    except DataError:
        return "data:,"
    image.thumbnail((SIDE, SIDE), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
