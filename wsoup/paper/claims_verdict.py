"""What the modules of claims share: a run's tables, how sure a difference in them is, and the three verdicts."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wsoup.statistics.noise import compare_counts

PLACES = {"XD mean": "XD", "DG mean": "DG"}
"""Columns of means -> how a sentence names them."""
ROLES = {"XD mean": "xd", "DG mean": "dg"}
Lines = Sequence[Mapping[str, str]]
"""The lines of a table, by column."""
RowName = tuple[str, str]
"""Variant and row, as tables of counts name them."""
AGREES = "agrees"
WITHIN_NOISE = "within noise"
DISAGREES = "does not agree"
CONFIDENCE = 0.95


class Difference(NamedTuple):
    """One row minus another on one place.

    Attributes:
        points: the difference.
        low, high: its interval over images and seeds; None where it is not known, as in the paper's own tables.
    """

    points: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.points:+.2f}"
        return f"{self.points:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def read_lines(path: Path) -> Lines:
    """The lines of a CSV table; none if there is no such file."""
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def difference(points: float, *, counts: Lines, place: str, ours: RowName, over: RowName) -> Difference:
    """A difference of a table with its interval, if a run's table of counts has both rows (`RowName`).

    Counts do not say which images are right, so the interval is of two rows that agree only by chance: too wide.
    """
    first = _counted(counts, ours, role=ROLES[place])
    second = _counted(counts, over, role=ROLES[place])
    if not first or first.keys() != second.keys():
        return Difference(points)
    datasets = list(dict.fromkeys(dataset for dataset, _ in first))
    seeds = list(dict.fromkeys(seed for _, seed in first))
    n_images = np.array([first[dataset, seeds[0]][1] for dataset in datasets])
    correct = []
    for row in (first, second):
        correct.append(np.array([[row[dataset, seed][0] for seed in seeds] for dataset in datasets]))
    low, high = compare_counts(*correct, n_images=n_images).fixed.interval(CONFIDENCE)
    return Difference(points, low, high)


def _counted(counts: Lines, name: RowName, *, role: str) -> dict[tuple[str, str], tuple[int, int]]:
    """(dataset, seed) -> correct and all images of a row on a place."""
    counted = {}
    for line in counts:
        if (line["variant"], line["row"]) == name and line["role"] == role:
            counted[line["dataset"], line["seed"]] = (int(line["n_correct"]), int(line["n_images"]))
    return counted


def verdict(holds: bool) -> str:
    """Whether figures without an interval are as a claim says."""
    return AGREES if holds else DISAGREES


def verdict_at_least(differences: Mapping[str, Difference], *, least: Mapping[str, float]) -> str:
    """Whether each difference is as large as a claim says: rounded to the paper's one decimal, and more than noise.

    It is within noise if a difference that is large enough may be none, or if one that is not may be.
    """
    missed = [place for place, ours in differences.items() if round(ours.points, 1) < least[place]]
    for place in missed:
        high = differences[place].high
        if high is None or high < least[place]:
            return DISAGREES
    may_be_none = any(ours.low is not None and ours.low <= 0 for ours in differences.values())
    return WITHIN_NOISE if missed or may_be_none else AGREES


def verdict_at_most(differences: Mapping[str, Difference], *, most: float) -> str:
    """Whether no difference is larger than a claim says, and none may be."""
    exceeding = [ours for ours in differences.values() if round(ours.points, 1) > most]
    if any(ours.low is None or ours.low > most for ours in exceeding):
        return DISAGREES
    may_exceed = any(ours.high is not None and ours.high > most for ours in differences.values())
    return WITHIN_NOISE if exceeding or may_exceed else AGREES
