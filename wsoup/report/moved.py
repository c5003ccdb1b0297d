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
        found = [_moved(label, counts) for label in range(len(names))]
        found = sorted((x for x in found if x["right"] or x["wrong"]), key=lambda x: (-abs(x["gain"]), x["label"]))
        shown.append(
            {
                "name": name,
                "role": dataset.role,
                "n_classes": len(names),
                "n_moved": len(found),
                "classes": [_named(moved, names) for moved in found[:GAINS]],
                "moves": _moves(counts, names),
                "confusion": _confusion([moved["label"] for moved in found[:CLASSES]], counts, names=names),
            }
        )
    return shown


def _moved(label: int, counts: Counts) -> dict[str, Any]:
    mine = {(before, after): n for (y, before, after), n in counts.items() if y == label}
    right = Counter({before: n for (before, after), n in mine.items() if before != label == after})
    wrong = Counter({after: n for (before, after), n in mine.items() if before == label != after})
    images = sum(mine.values())
    gain = 100.0 * (right.total() - wrong.total()) / max(1, images)
    found = {"label": label, "images": images, "right": right.total(), "wrong": wrong.total(), "gain": gain}
    return {**found, "taken": right.most_common(2), "takes": wrong.most_common(2)}


def _named(moved: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    mostly = {key: ", ".join(f"{names[label]} ({count})" for label, count in moved[key]) for key in ("taken", "takes")}
    return {
        "name": names[moved["label"]],
        **{key: moved[key] for key in ("images", "right", "wrong", "gain")},
        **mostly,
    }


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
        signs = [1 if column == label else -1 for column in columns] + [-1]
        cells = [
            {"before": a, "after": b, "better": sign * (b - a) / images}
            for (a, b), sign in zip(pairs, signs, strict=True)
        ]
        rows.append({"name": names[label], "cells": cells})
    return {"columns": [*(names[column] for column in columns), "others"], "rows": rows}
