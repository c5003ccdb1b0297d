"""Heads against what texts alone do on the same images; their accuracies stand beside those of finetuned methods.

`wsoup.statistics.noise` judges them; the table's p values are corrected together (Holm).
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED
from wsoup.evaluate.bits import FILE, Right, right_by_row
from wsoup.evaluate.rows import CLASS_NAME
from wsoup.report.labels import soup_rows, soup_title
from wsoup.report.tables import Table
from wsoup.report.verdict import RIVALS
from wsoup.statistics.noise import compare_images, judge

ROLES = {"source": "source", "dg": "DG"}
GAIN = ("gain", "low", "high", "p", "verdict")
Row = dict[str, Any]


def heads_table(results: Path, *, heads: Sequence[str], roles: Mapping[str, str], confidence: float) -> Table:
    """Every head against the class name only, and against its own texts, on the source and on DG."""
    path = store.require(results / PRETRAINED / FILE, made_by="evaluate")
    pretrained = {method: right for (method, mode), right in _right_images(path).items() if mode == "centroid"}
    rows, pairs = [], []
    for name in heads:
        path = store.require(results / "heads" / f"{name}.parquet", made_by=f"head@{name}")
        about, (own,) = store.table_attributes(path), _right_images(path).values()
        kinds, n_right, n_seen = zip(*about["left_out"], strict=True)
        row: Row = {"head": name, "kind": "/".join(dict.fromkeys(kinds)), "texts": _texts_title(about["soup"])}
        row |= {"stored": about["parameters"], "left out": 100 * sum(n_right) / sum(n_seen) if sum(n_seen) else None}
        for rival, role in product(dict.fromkeys((CLASS_NAME.name, about["soup"])), ("source", "dg")):
            method = rival if rival == CLASS_NAME.name else soup_rows(rival)[0].method.name
            datasets = [dataset for dataset in own if roles.get(dataset) == role]
            if datasets and method in pretrained:
                rows.append(row | {"over": _texts_title(rival), "role": ROLES[role]})
                pairs.append(({n: own[n] for n in datasets}, {n: pretrained[method][n] for n in datasets}))
    return Table(
        "heads",
        "Heads: a few labelled images of the same classes",
        columns=["head", "kind", "texts", "over", "role", *GAIN, "left out", "stored"],
        rows=_with_gains(rows, pairs, confidence),
        notes=[
            "Points; low to high is the interval over images and seeds, datasets held fixed; p is Holm's over rows.",
            "Left out: per cent of few-shot images right, each by a head trained on the others; the choice goes by it.",
            "A head is trained on labelled images of its classes: there is none for other classes (XD).",
        ],
    )


def _right_images(path: Path) -> dict[tuple[str, str], Right]:
    return right_by_row(store.read_table(path).to_pylist())


def _texts_title(soup: str) -> str:
    """Title of the texts of a head."""
    return RIVALS[CLASS_NAME.name] if soup == CLASS_NAME.name else soup_title(soup)


def _with_gains(rows: Sequence[Row], pairs: Sequence[tuple[Right, Right]], confidence: float) -> list[Row]:
    """Rows with the columns `GAIN`: those of the first of each pair over the second."""
    verdicts = judge([compare_images(*pair).fixed for pair in pairs], confidence=confidence)
    return [
        row | dict(zip(GAIN, (v.mean, v.low, v.high, v.p, v.word), strict=True))
        for row, v in zip(rows, verdicts, strict=True)
    ]
