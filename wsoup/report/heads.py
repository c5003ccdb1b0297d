"""Tables of heads and adaptations, beside what texts alone do on the same images.

Heads have few-shot images with labels: their accuracies are beside those of finetuned methods, their verdicts here.
Adaptations have seen the targets' images, without labels, so they have a table of their own. `wsoup.statistics.noise`
judges both; p values of each table are corrected together (Holm).
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED
from wsoup.evaluate.bits import FILE, Right, right_by_row
from wsoup.evaluate.piles import REGIMES
from wsoup.evaluate.rows import CLASS_NAME
from wsoup.report.labels import soup_rows, soup_title
from wsoup.report.results import MEANS
from wsoup.report.tables import Table
from wsoup.report.verdict import RIVALS
from wsoup.statistics.noise import compare_images, judge

ROLES = {"source": "source", "xd": "XD", "dg": "DG"}
GAIN = ("gain", "low", "high", "p", "verdict")
Row = dict[str, Any]
Piles = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
"""A pile with its labels, and the answers to it."""


def heads_table(results: Path, *, heads: Sequence[str], roles: Mapping[str, str], confidence: float) -> Table:
    """Every head against the class name only, and against its own texts, on the source and on DG."""
    path = store.require(results / PRETRAINED / FILE, made_by="evaluate")
    pretrained = {method: right for (method, mode), right in _right_images(path).items() if mode == "centroid"}
    rows, pairs = [], []
    for name in heads:
        path = store.require(results / "heads" / f"{name}.parquet", made_by=f"evaluate_head@{name}")
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
    """Title of the texts of a head or an adaptation."""
    return RIVALS[CLASS_NAME.name] if soup == CLASS_NAME.name else soup_title(soup)


def _with_gains(rows: Sequence[Row], pairs: Sequence[tuple[Right, Right]], confidence: float) -> list[Row]:
    """Rows with the columns `GAIN`: those of the first of each pair over the second."""
    verdicts = judge([compare_images(*pair).fixed for pair in pairs], confidence=confidence)
    return [
        row | dict(zip(GAIN, (v.mean, v.low, v.high, v.p, v.word), strict=True))
        for row, v in zip(rows, verdicts, strict=True)
    ]


def adapted_table(results: Path, *, adaptations: Sequence[str], confidence: float) -> Table:
    """Every adaptation against its own texts, in every regime, on XD and DG."""
    labels = store.read_table(store.require(results / "piles" / "labels.parquet", made_by="piles")).to_pylist()
    piles = {(pile["dataset"], pile["regime"], pile["seed"]): pile for pile in labels}
    rows, pairs = [], []
    for name in adaptations:
        path = store.require(results / "adapted" / f"{name}.parquet", made_by=f"adapt@{name}")
        attributes, answers = store.table_attributes(path), store.read_table(path).to_pylist()
        about = {"adaptation": name, "kind": attributes["kind"], "texts": _texts_title(attributes["soup"])}
        answered = [(piles[each["dataset"], each["regime"], each["seed"]], each) for each in answers]
        for regime, role in product(REGIMES, MEANS):
            group = [pair for pair in answered if (pair[0]["regime"], pair[0]["role"]) == (regime, role)]
            if group:
                before, after = (_right_by_dataset(group, key) for key in ("before", "after"))
                figures = _figures(group, before=before, after=after, confidence=confidence)
                rows.append(about | {"regime": REGIMES[regime], "role": ROLES[role]} | figures)
                pairs.append((after, before))
    columns = ["adaptation", "kind", "texts", "regime", "role", "texts alone", "adapted", *GAIN, "left alone", "piles"]
    return Table(
        "adapted",
        "Adaptation: saw the targets' images, without labels",
        columns=[*columns, "worse piles", *dict.fromkeys(pile["dataset"] for pile in labels)],
        rows=_with_gains(rows, pairs, confidence),
        notes=[
            "These rows saw the targets' images, without labels; rows of other tables did not.",
            "Per cent, and points over the same texts; each pile with its own images; low to high and p as for heads.",
            "Left alone: per cent of images that the guard left to the texts. Worse piles: those of a dataset and seed "
            "that are worse by more than noise, each judged by itself. The last columns are gains on each target.",
        ],
    )


def _figures(piles: Piles, *, before: Right, after: Right, confidence: float) -> Row:
    """Of one regime and role: accuracies, what the guard did, and the gain on each target."""
    return {
        "texts alone": 100 * float(np.mean([right.mean() for right in before.values()])),
        "adapted": 100 * float(np.mean([right.mean() for right in after.values()])),
        "left alone": 100 * float(np.mean([1 - answers["adapted"] for _, answers in piles])),
        "piles": len(piles),
        "worse piles": sum(_is_worse(pile, answers, confidence=confidence) for pile, answers in piles),
        **{name: 100 * float((after[name] - before[name]).mean()) for name in before},
    }


def _right_by_dataset(piles: Piles, key: str) -> Right:
    """Dataset -> (K, N): right images, weighted so that the mean over all N is the mean over each seed's pile."""
    by_dataset: dict[str, list[np.ndarray]] = {}
    for pile, answers in piles:
        images = np.asarray(pile["images"])
        right = np.zeros(pile["n_all"])
        right[images] = np.equal(pile["labels"], answers[key]) * (pile["n_all"] / len(images))
        by_dataset.setdefault(pile["dataset"], []).append(right)
    return {name: np.stack(seeds) for name, seeds in by_dataset.items()}


def _is_worse(pile: Mapping[str, Any], answers: Mapping[str, Any], *, confidence: float) -> bool:
    """Whether a pile, judged by itself, is answered worse than by the texts alone."""
    after, before = ({"": np.equal(pile["labels"], answers[key])[None]} for key in ("after", "before"))
    return judge([compare_images(after, before).fixed], confidence=confidence)[0].word == "worse"
