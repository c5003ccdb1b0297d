"""What a soup changed, for the page: images that it turned right or wrong, and the classes that it moved."""

import base64
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from wsoup.base import remote
from wsoup.base.errors import DataError
from wsoup.check.whole import Params
from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED, Artifacts
from wsoup.images.decode import load_rgb
from wsoup.report.labels import soup_title
from wsoup.report.plots import evenly

THUMBNAIL = 72
"""Maximum side of a gallery image, in pixels."""
GAINS = 20
"""Classes of each dataset that are listed: those that gained or lost most."""
CLASSES = 6
"""Classes of them whose confusion is shown, and confusions that are listed."""
OTHERS = 4
"""Further classes that images of these are taken for, each in its own column."""
Counts = Mapping[tuple[int, int, int], int]
"""(label, predicted before, predicted after) -> images."""


def changed_by(artifacts: Artifacts) -> str:
    """Title of the soup in the gallery: ``word soup (centroid, all seeds)``."""
    about = store.table_attributes(_flips(artifacts))
    return f"{soup_title(about['soup'])} ({about['mode'].replace('_', ' ')}, all seeds)"


def gallery(artifacts: Artifacts, *, params: Params) -> list[dict[str, Any]]:
    """For each dataset, images that the run's soup turned right and wrong, as data URIs."""
    flips = store.read_table(_flips(artifacts)).to_pylist()
    datasets = []
    for name, dataset in params.datasets.items():
        lines, manifest = [line for line in flips if line["dataset"] == name], artifacts.manifest(name)
        if lines and manifest.exists():
            names = store.table_attributes(manifest)["class_names"]
            paths = store.read_table(manifest, columns=["path"])["path"]
            root = dataset.root if remote.is_remote(dataset.root) else artifacts.root / dataset.root
            groups = []
            for title, prediction in (("now right", "after"), ("now wrong", "before")):
                flipped = [line for line in lines if line[prediction] == line["label"]]
                pictures = [
                    {key: names[line[key]] for key in ("label", "before", "after")} | {"image": image}
                    for line in (flipped[i] for i in evenly(len(flipped), at_most=params.report.gallery))
                    if (image := _data_uri(remote.joined(root, paths[line["row"]].as_py())))
                ]
                groups.append({"title": title, "count": len(flipped), "pictures": pictures})
            datasets.append({"name": name, "role": dataset.role, "groups": groups})
    return datasets


def _flips(artifacts: Artifacts) -> Path:
    return artifacts.results / PRETRAINED / "flips.parquet"


def _data_uri(path: str) -> str | None:
    """A small PNG or JPEG of an image file; None if it can no longer be read."""
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
    """Classes of each dataset that the gallery's soup moved, compared with the class name only.

    Returns:
        {name, role, n_classes, n_moved, classes, moves, confusion}; `n_moved` classes have images that changed sides.
        `classes`, those that moved most first: {name, images, right, wrong, gain, taken, takes}: images turned right
        and wrong, the gain in points, what images that are now right were mostly taken for, and what images that are
        now wrong are mostly taken for. `moves` are the confusions that changed most: {label, other, count}, count below
        0 where fewer images of `label` are taken for `other`. `confusion` covers the classes that moved most: {columns,
        rows: [{name, cells: [{before, after, better}]}]}, where a cell counts images of the row's class that are taken
        for the column's; `better` is from -1 to 1.
    """
    table = store.read_table(artifacts.results / PRETRAINED / "confusion.parquet").to_pylist()
    datasets = []
    for name, dataset in params.datasets.items():
        counts = {(x["label"], x["before"], x["after"]): x["n_images"] for x in table if x["dataset"] == name}
        if not any(before != after for _, before, after in counts) or not artifacts.manifest(name).exists():
            continue
        names = store.table_attributes(artifacts.manifest(name))["class_names"]
        classes = [_changes(label, counts, names) for label in range(len(names))]
        moved = [label for label, change in enumerate(classes) if change["right"] or change["wrong"]]
        moved.sort(key=lambda label: -abs(classes[label]["gain"]))
        datasets.append(
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
    return datasets


def _changes(label: int, counts: Counts, names: Sequence[str]) -> dict[str, Any]:
    """What changed for the images of one class."""
    of_class = {(before, after): n for (y, before, after), n in counts.items() if y == label}
    right = Counter({before: n for (before, after), n in of_class.items() if before != label == after})
    wrong = Counter({after: n for (before, after), n in of_class.items() if before == label != after})
    images = sum(of_class.values())
    return {
        "name": names[label],
        "images": images,
        "right": right.total(),
        "wrong": wrong.total(),
        "gain": 100.0 * (right.total() - wrong.total()) / max(1, images),
        "taken": _most_common(right, names),
        "takes": _most_common(wrong, names),
    }


def _most_common(others: Counter[int], names: Sequence[str]) -> str:
    return ", ".join(f"{names[label]} ({count})" for label, count in others.most_common(2))


def _moves(counts: Counts, names: Sequence[str]) -> list[dict[str, Any]]:
    """The confusions that changed most."""
    changes: Counter[tuple[int, int]] = Counter()
    for (label, before, after), n in counts.items():
        if before != label:
            changes[label, before] -= n
        if after != label:
            changes[label, after] += n
    largest = sorted(changes.items(), key=lambda change: -abs(change[1]))[:CLASSES]
    return [{"label": names[a], "other": names[b], "count": count} for (a, b), count in largest if count]


def _confusion(labels: Sequence[int], counts: Counts, *, names: Sequence[str]) -> dict[str, Any]:
    """What images of some classes are taken for: these classes, other common ones, and all others together."""
    before, after = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for (label, first, second), n in counts.items():
        before[label, first] += n
        after[label, second] += n
    others: Counter[int] = Counter()
    for (label, predicted), n in (before + after).items():
        if label in labels and predicted not in labels:
            others[predicted] += n
    columns = [*labels, *(other for other, _ in others.most_common(OTHERS))]
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
