"""Rows for those who have photographs of the very classes in question, beside what texts alone do there.

Heads have few-shot images with labels: their rows stand beside the finetuned methods, and here with the verdict. What
adapts has seen the targets' images, without labels: its rows stand in a table of their own. Both are held against the
same images by `wsoup.statistics.noise`; p values of each table are corrected together (Holm).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import PRETRAINED
from wsoup.evaluate.bits import FILE, Right, right_by_row
from wsoup.evaluate.piles import REGIMES
from wsoup.evaluate.rows import CLASS_NAME, soup_rows, soup_title
from wsoup.report.means import MEANS
from wsoup.report.tables import Table
from wsoup.report.verdict import OVER as RIVALS
from wsoup.statistics.noise import compare_images, judge

ROLES = {"source": "source", "xd": "XD", "dg": "DG"}
OVER = ("gain", "low", "high", "p", "verdict")
Line = dict[str, Any]
Piles = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
"""A pile with its labels, and the answers to it."""


def texts_of(soup: str) -> str:
    """What tables call the texts of a head or an adaptation."""
    return RIVALS[CLASS_NAME.name] if soup == CLASS_NAME.name else soup_title(soup)


def heads_table(results: Path, *, heads: Sequence[str], roles: Mapping[str, str], confidence: float) -> Table:
    """Every head against the class name only, and against its own texts, on the source and on DG."""
    right = right_by_row(store.read_table(store.require(results / PRETRAINED / FILE, made_by="evaluate")).to_pylist())
    lines, pairs = [], []
    for name in heads:
        path = store.require(results / "heads" / f"{name}.parquet", made_by=f"evaluate_head@{name}")
        about, (own,) = store.table_attributes(path), right_by_row(store.read_table(path).to_pylist()).values()
        seen = sum(n for _, _, n in about["left_out"])
        line: dict[str, Any] = {"head": name, "kind": "/".join(dict.fromkeys(kind for kind, _, _ in about["left_out"]))}
        line |= {"texts": texts_of(about["soup"]), "stored": about["parameters"]}
        line |= {"left out": 100 * sum(count for _, count, _ in about["left_out"]) / seen if seen else None}
        for (over, rival), role in [(o, role) for o in _rivals(about["soup"], right) for role in ("source", "dg")]:
            names = [dataset for dataset in own if roles.get(dataset) == role]
            if names:
                lines.append(line | {"over": over, "role": ROLES[role]})
                pairs.append(({n: own[n] for n in names}, {n: rival[n] for n in names}))
    columns = ["head", "kind", "texts", "over", "role", *OVER, "left out", "stored"]
    notes = [
        "Points; low to high is the interval over images and seeds, datasets held fixed; p is Holm's, over this table.",
        "Left out: per cent of few-shot images right, each by a head of the others; it decides what is chosen.",
        "A head is made of labelled images of the very classes: there is none for other classes (XD).",
    ]
    return Table(
        "heads", "Heads: few labelled images of the very classes", columns, _judged(lines, pairs, confidence), notes
    )


def _rivals(soup: str, right: Mapping[tuple[str, str], Right]) -> Iterator[tuple[str, Right]]:
    yield RIVALS[CLASS_NAME.name], right[CLASS_NAME.name, "centroid"]
    key = soup if soup == CLASS_NAME.name else soup_rows(soup)[0].method.name, "centroid"
    if soup != CLASS_NAME.name and key in right:
        yield texts_of(soup), right[key]


def _judged(lines: Sequence[Line], pairs: Sequence[tuple[Right, Right]], confidence: float) -> list[Line]:
    """Lines with the columns `OVER`: how the first of each pair does over the second."""
    verdicts = judge([compare_images(*pair).fixed for pair in pairs], confidence=confidence)
    return [
        line | dict(zip(OVER, (v.mean, v.low, v.high, v.p, v.word), strict=True))
        for line, v in zip(lines, verdicts, strict=True)
    ]


def adapted_table(results: Path, *, adaptations: Sequence[str], confidence: float) -> Table:
    """Every adaptation against its own texts, in every regime, on XD and DG."""
    piles = store.require(results / "piles" / "labels.parquet", made_by="piles")
    key = {(line["dataset"], line["regime"], line["seed"]): line for line in store.read_table(piles).to_pylist()}
    lines, pairs = [], []
    for name in adaptations:
        path = store.require(results / "adapted" / f"{name}.parquet", made_by=f"adapt@{name}")
        told = store.table_attributes(path)
        about = {"adaptation": name, "kind": told["kind"], "texts": texts_of(told["soup"])}
        answers = store.read_table(path).to_pylist()
        answered = [(key[one["dataset"], one["regime"], one["seed"]], one) for one in answers]
        for regime, role in product(REGIMES, MEANS):
            some = [pair for pair in answered if (pair[0]["regime"], pair[0]["role"]) == (regime, role)]
            if some:
                before, after = (_right(some, what) for what in ("before", "after"))
                figures = _figures(some, before=before, after=after, confidence=confidence)
                lines.append(about | {"regime": REGIMES[regime], "role": ROLES[role]} | figures)
                pairs.append((after, before))
    datasets = list(dict.fromkeys(line["dataset"] for line in key.values()))
    columns = ["adaptation", "kind", "texts", "regime", "role", "texts alone", "adapted", *OVER, "left alone", "piles"]
    notes = [
        "These rows saw the targets' images, without labels; no other table's did, and they stand in none of them.",
        "Per cent and points over the same texts, each pile with its own images; low to high and p as for heads.",
        "Left alone: per cent of images that the guard left to the texts. Worse piles: of a dataset and seed, worse by "
        "more than noise, each judged by itself. The last columns are the gains on each target.",
    ]
    title = "Adaptation: saw the targets' images, without labels"
    return Table("adapted", title, [*columns, "worse piles", *datasets], _judged(lines, pairs, confidence), notes)


def _figures(some: Piles, *, before: Right, after: Right, confidence: float) -> dict[str, Any]:
    """Of one regime and role: accuracies, what the guard did, and the gain on each target."""
    alone = [1 - answers["adapted"] for _, answers in some]
    means = {what: _mean(right) for what, right in (("texts alone", before), ("adapted", after))}
    worse = sum(_worse(pile, answers, confidence=confidence) for pile, answers in some)
    piles = {"piles": len(some), "worse piles": worse}
    gains = {name: 100 * float((after[name] - before[name]).mean()) for name in before}
    return {**means, "left alone": 100 * float(np.mean(alone)), **piles, **gains}


def _right(some: Piles, what: str) -> Right:
    """Dataset -> (K, N): 1 for a right image, so weighted that means over all N are those over each seed's pile."""
    by_dataset: dict[str, list[np.ndarray]] = {}
    for pile, answers in some:
        images = np.asarray(pile["images"])
        right = np.zeros(pile["n_all"])
        right[images] = np.equal(pile["labels"], answers[what]) * (pile["n_all"] / len(images))
        by_dataset.setdefault(pile["dataset"], []).append(right)
    return {name: np.stack(seeds) for name, seeds in by_dataset.items()}


def _mean(right: Right) -> float:
    return 100 * float(np.mean([of_dataset.mean() for of_dataset in right.values()]))


def _worse(pile: Mapping[str, Any], answers: Mapping[str, Any], *, confidence: float) -> bool:
    """Whether a pile, judged by itself, is answered worse than by the texts alone."""
    after, before = ({"": np.equal(pile["labels"], answers[what])[None]} for what in ("after", "before"))
    return judge([compare_images(after, before).fixed], confidence=confidence)[0].word == "worse"
