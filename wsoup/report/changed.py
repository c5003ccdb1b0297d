"""What a soup changed, for the page: the images that it turned right or wrong, and the classes that it moved."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from wsoup.check.whole import Params
from wsoup.core.disk import remote, store
from wsoup.core.disk.artifacts import PRETRAINED, Artifacts
from wsoup.core.errors import DataError
from wsoup.evaluate.rows import soup_title
from wsoup.images.decode import load_rgb

THUMBNAIL = 72
"""Side of a gallery image in pixels at most."""
GAINS = 20
"""Of each dataset, the classes that gained or lost most."""
CLASSES = 6
"""Those of them whose confusion is shown whole, and confusions that changed most."""
OTHERS = 4
"""Further classes that these are taken for, each in a column of its own."""
Counts = Mapping[tuple[int, int, int], int]
"""(label, predicted before, predicted after) -> images."""


def changed_by(artifacts: Artifacts) -> str:
    """What the soup is called whose images the gallery shows: ``word soup (centroid, all seeds)``."""
    about = store.table_attributes(_flips(artifacts))
    return f"{soup_title(about['soup'])} ({about['mode'].replace('_', ' ')}, all seeds)"


def gallery(artifacts: Artifacts, *, params: Params) -> list[dict[str, Any]]:
    """For each dataset, images that the run's soup turned right and wrong, as data URIs."""
    flips = store.read_table(_flips(artifacts)).to_pylist()
    shown = []
    for name, dataset in params.datasets.items():
        lines, manifest = [line for line in flips if line["dataset"] == name], artifacts.manifest(name)
        if lines and manifest.exists():
            names = store.table_attributes(manifest)["class_names"]
            paths = store.read_table(manifest, columns=["path"])["path"]
            root = dataset.root if remote.is_remote(dataset.root) else artifacts.root / dataset.root
            turned = {
                "now right": [line for line in lines if line["after"] == line["label"]],
                "now wrong": [line for line in lines if line["before"] == line["label"]],
            }
            groups = [
                {
                    "title": title,
                    "count": len(some),
                    "pictures": [
                        {key: names[line[key]] for key in ("label", "before", "after")} | {"image": image}
                        for line in _spread(some, count=params.report.gallery)
                        if (image := _data_uri(remote.joined(root, paths[line["row"]].as_py())))
                    ],
                }
                for title, some in turned.items()
            ]
            shown.append({"name": name, "role": dataset.role, "groups": groups})
    return shown


def _flips(artifacts: Artifacts) -> Path:
    return artifacts.results / PRETRAINED / "flips.parquet"


def _spread(lines: Sequence[Any], *, count: int) -> list[Any]:
    """`count` of the lines at equal distances, so that they are of many classes."""
    places = np.unique(np.linspace(0, len(lines) - 1, min(count, len(lines))).round().astype(int))
    return [lines[i] for i in places.tolist()]


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


def moved_classes(artifacts: Artifacts, *, params: Params) -> list[dict[str, Any]]:
    """Classes of each dataset that the soup which the gallery shows moved, beside the class name only.

    Returns:
        {name, role, n_classes, n_moved, classes, moves, confusion}; `n_moved` classes have images that changed sides.
        `classes`, those that moved most first: {name, images, right, wrong, gain, taken, takes}: images turned right
        and wrong, the gain in points, what images that are right now were mostly taken for, and what images that are
        wrong now are mostly taken for. `moves` are the confusions that changed most: {label, other, count}, count below
        0 where fewer images of `label` are taken for `other`. `confusion` is of the classes that moved most: {columns,
        rows: [{name, cells: [{before, after, better}]}]}, where a cell counts images of the row's class that are taken
        for the column's; `better` is from -1 to 1.
    """
    table = store.read_table(artifacts.results / PRETRAINED / "confusion.parquet").to_pylist()
    shown = []
    for name, dataset in params.datasets.items():
        counts = {(x["label"], x["before"], x["after"]): x["n_images"] for x in table if x["dataset"] == name}
        if not any(before != after for _, before, after in counts) or not artifacts.manifest(name).exists():
            continue
        names = store.table_attributes(artifacts.manifest(name))["class_names"]
        classes = [_moved(label, counts, names) for label in range(len(names))]
        moved = [label for label, about in enumerate(classes) if about["right"] or about["wrong"]]
        moved.sort(key=lambda label: -abs(classes[label]["gain"]))
        shown.append(
            {
                "name": name,
                "role": dataset.role,
                "n_classes": len(names),
                "n_moved": len(moved),
                "classes": [classes[label] for label in moved[:GAINS]],
                "moves": _moves(counts, names),
                "confusion": _confusion(moved[:CLASSES], counts, names=names),
            }
        )
    return shown


def _moved(label: int, counts: Counts, names: Sequence[str]) -> dict[str, Any]:
    mine = {(before, after): n for (y, before, after), n in counts.items() if y == label}
    right = Counter({before: n for (before, after), n in mine.items() if before != label == after})
    wrong = Counter({after: n for (before, after), n in mine.items() if before == label != after})
    images = sum(mine.values())
    return {
        "name": names[label],
        "images": images,
        "right": right.total(),
        "wrong": wrong.total(),
        "gain": 100.0 * (right.total() - wrong.total()) / max(1, images),
        "taken": _mostly(right, names),
        "takes": _mostly(wrong, names),
    }


def _mostly(others: Counter[int], names: Sequence[str]) -> str:
    return ", ".join(f"{names[label]} ({count})" for label, count in others.most_common(2))


def _moves(counts: Counts, names: Sequence[str]) -> list[dict[str, Any]]:
    changes: Counter[tuple[int, int]] = Counter()
    for (label, before, after), n in counts.items():
        if before != label:
            changes[label, before] -= n
        if after != label:
            changes[label, after] += n
    largest = sorted(changes.items(), key=lambda change: -abs(change[1]))[:CLASSES]
    return [{"label": names[a], "other": names[b], "count": count} for (a, b), count in largest if count]


def _confusion(labels: Sequence[int], counts: Counts, *, names: Sequence[str]) -> dict[str, Any]:
    """What images of some classes are taken for: these classes, others that are common, and all else together."""
    before, after = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for (label, first, second), n in counts.items():
        before[label, first] += n
        after[label, second] += n
    common: Counter[int] = Counter()
    for (label, other), n in (before + after).items():
        if label in labels and other not in labels:
            common[other] += n
    columns = [*labels, *(other for other, _ in common.most_common(OTHERS))]
    rows = []
    for label in labels:
        images = sum(n for (y, _), n in before.items() if y == label)
        pairs = [(before[label, column], after[label, column]) for column in columns]
        pairs.append((images - sum(a for a, _ in pairs), images - sum(b for _, b in pairs)))
        cells = [
            {"before": a, "after": b, "better": (b - a if column == label else a - b) / images}
            for column, (a, b) in zip([*columns, None], pairs, strict=True)
        ]
        rows.append({"name": names[label], "cells": cells})
    return {"columns": [*(names[column] for column in columns), "others"], "rows": rows}
