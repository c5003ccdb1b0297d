"""Images that a soup turned right or wrong, for the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from wsoup.check.whole import Params
from wsoup.core.errors import DataError
from wsoup.disk import remote, store
from wsoup.disk.artifacts import PRETRAINED, Artifacts
from wsoup.evaluate.rows import soup_title
from wsoup.images.decode import load_rgb

THUMBNAIL = 72
"""Side of a gallery image in pixels at most."""


def changed_by(artifacts: Artifacts) -> str:
    """What the soup is called whose images the gallery shows: ``word soup``."""
    return soup_title(store.table_attributes(_flips(artifacts))["soup"])


def gallery(artifacts: Artifacts, *, params: Params) -> list[dict[str, Any]]:
    """For each dataset, images that the first seed's soup turned right and wrong, as data URIs."""
    flips = store.read_table(_flips(artifacts)).to_pylist()
    shown = []
    for name, dataset in params.datasets.items():
        lines = [line for line in flips if line["dataset"] == name]
        manifest = artifacts.manifest(name)
        if not lines or not manifest.exists():
            continue
        names = store.table_attributes(manifest)["class_names"]
        paths = store.read_table(manifest, columns=["path"])["path"]
        groups = []
        for title, column in (("now right", "after"), ("now wrong", "before")):
            found = [line for line in lines if line[column] == line["label"]]
            spread = _spread(found, count=params.report.gallery)
            pictures = [
                {
                    "image": _data_uri(remote.joined(_root(artifacts, dataset.root), paths[line["row"]].as_py())),
                    "label": names[line["label"]],
                    "before": names[line["before"]],
                    "after": names[line["after"]],
                }
                for line in spread
            ]
            groups.append({"title": title, "count": len(found), "pictures": [p for p in pictures if p["image"]]})
        shown.append({"name": name, "role": dataset.role, "groups": groups})
    return shown


def _flips(artifacts: Artifacts) -> Path:
    return artifacts.results / PRETRAINED / "flips.parquet"


def _spread(lines: Sequence[Any], *, count: int) -> list[Any]:
    """`count` of the lines at equal distances, so that they are of many classes."""
    if not lines or not count:
        return []
    places = np.unique(np.linspace(0, len(lines) - 1, min(count, len(lines))).round().astype(int))
    return [lines[i] for i in places.tolist()]


def _root(artifacts: Artifacts, root: str) -> str | Path:
    return root if remote.is_remote(root) else artifacts.root / root


def _data_uri(path: str) -> str | None:
    """A small PNG or JPEG of an image file; None where it cannot be read any more."""
    try:
        image = load_rgb(path)
    except DataError:
        return None
    kind = "png" if max(image.size) <= THUMBNAIL else "jpeg"
    image.thumbnail((2 * THUMBNAIL, 2 * THUMBNAIL), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    image.save(data, format=kind, **({"quality": 80} if kind == "jpeg" else {}))
    return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}"
