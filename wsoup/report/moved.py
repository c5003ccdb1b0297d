"""Which classes a soup moved: gains by class, and what their images were and are taken for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from wsoup.check.whole import Params
from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED, Artifacts

GAINS = 20
"""Of each dataset, the classes that gained or lost most."""
CLASSES = 6
"""Those of them whose confusion is shown whole, and confusions that changed most."""
OTHERS = 4
"""Further classes that these are taken for, each in a column of its own."""
Counts = Mapping[tuple[int, int, int], int]
"""(label, predicted before, predicted after) -> images."""


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
