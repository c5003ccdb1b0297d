"""Which classes a soup moved: gains by class, and what the images were and are taken for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow.compute as pc

from wsoup import store
from wsoup.artifacts import PRETRAINED, Artifacts
from wsoup.params.whole import Params

CLASSES = 6
"""Of each dataset, those that gained or lost most."""


def moved_classes(artifacts: Artifacts, *, params: Params) -> list[dict[str, Any]]:
    """The most moved classes of each dataset, for the soup that the gallery shows.

    Returns:
        {name, role, moves, classes: [{name, images, right, wrong, gain, taken, takes}]}: images turned right and wrong,
        the gain in points, what images that are right now were mostly taken for, and what images that are wrong now are
        mostly taken for. `moves` are the confusions that changed most: {label, other, count}, count below 0 where
        fewer images of `label` are taken for `other` than before.
    """
    flips = store.read_table(artifacts.results / PRETRAINED / "flips.parquet").to_pylist()
    shown = []
    for name, dataset in params.datasets.items():
        lines = [line for line in flips if line["dataset"] == name]
        if not lines or not artifacts.manifest(name).exists():
            continue
        names = store.table_attributes(artifacts.manifest(name))["class_names"]
        table = store.read_table(artifacts.manifest(name), columns=["label", "split"])
        sizes = Counter(table.filter(pc.equal(table["split"], "test"))["label"].to_pylist())
        classes = [_moved(label, lines, names=names, n_images=sizes[label]) for label in range(len(names))]
        classes = [found for found in classes if found["right"] or found["wrong"]]
        classes.sort(key=lambda found: -abs(found["gain"]))
        shown.append({"name": name, "role": dataset.role, "classes": classes[:CLASSES], "moves": _moves(lines, names)})
    return shown


def _moved(label: int, lines: list[Any], *, names: list[str], n_images: int) -> dict[str, Any]:
    mine = [line for line in lines if line["label"] == label]
    right = [line["before"] for line in mine if line["after"] == label]
    wrong = [line["after"] for line in mine if line["before"] == label]
    gain = 100.0 * (len(right) - len(wrong)) / max(1, n_images)
    found = {"name": names[label], "images": n_images, "right": len(right), "wrong": len(wrong), "gain": gain}
    return {**found, "taken": _mostly(right, names), "takes": _mostly(wrong, names)}


def _mostly(labels: list[int], names: list[str]) -> str:
    return ", ".join(f"{names[label]} ({count})" for label, count in Counter(labels).most_common(2))


def _moves(lines: list[Any], names: list[str]) -> list[dict[str, Any]]:
    changes: Counter[tuple[int, int]] = Counter()
    for line in lines:
        if line["before"] != line["label"]:
            changes[line["label"], line["before"]] -= 1
        if line["after"] != line["label"]:
            changes[line["label"], line["after"]] += 1
    largest = sorted(changes.items(), key=lambda change: -abs(change[1]))[:CLASSES]
    return [{"label": names[a], "other": names[b], "count": count} for (a, b), count in largest if count]
