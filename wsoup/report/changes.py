"""What changed of a row between two revisions: on source, XD and DG, with its interval.

Rows whose right images are known at both revisions are compared image by image. Counts alone, of another machine's run
say, only bound the interval (`wsoup.statistics.noise.compare_counts`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wsoup.evaluate.row_key import RowKey
from wsoup.report.results import PLACES
from wsoup.report.revisions import Counts, Revision, TestImages
from wsoup.statistics.noise import Comparison, Estimate, Verdict, compare_counts, compare_images, judge
from wsoup.statistics.words import interval, worded

CONFIDENCE = 0.95
"""Confidence of all intervals between two revisions; `report.confidence` is about one run."""


class Change(NamedTuple):
    """One row on one place.

    Attributes:
        row: its key in the later revision.
        place: source, XD mean or DG mean.
        before, after: per cent.
        by_image: whether images are compared, or counts alone.
        identical: whether the same images are right with every seed, or as many where counts alone are known.
        verdict: on the change, corrected for all that are judged together.
    """

    row: RowKey
    place: str
    before: float
    after: float
    by_image: bool
    identical: bool
    verdict: Verdict

    @property
    def interval(self) -> str:
        """The interval of the change and its verdict, in columns."""
        text = f"{interval(self.verdict):<16} {worded(self.verdict)}"
        if self.identical:
            text = "identical"
        if self.by_image:
            return text
        return f"{text} (from counts)"


def changes(before: Revision, after: Revision, *, keys: Sequence[tuple[RowKey, RowKey]]) -> list[Change]:
    """Rows, each by its key before and after, on source, XD and DG; judged together.

    Only datasets with the same test images, and seeds, that both revisions have.
    """
    measured: list[_Measured] = []
    for old, new in keys:
        for role, place in PLACES.items():
            change = _measure(before, after, old=old, new=new, role=role, place=place)
            if change is not None:
                measured.append(change)
    # Whoever looks at several places or rows at once finds noise in one of them: hence one correction for all.
    verdicts = judge([change.estimate for change in measured], confidence=CONFIDENCE)
    judged = []
    for change, verdict in zip(measured, verdicts, strict=True):
        judged.append(Change(*change[:-1], verdict))
    return judged


class _Measured(NamedTuple):
    """A change before it is judged together with others."""

    row: RowKey
    place: str
    before: float
    after: float
    by_image: bool
    identical: bool
    estimate: Estimate


def _measure(before: Revision, after: Revision, *, old: RowKey, new: RowKey, role: str, place: str) -> _Measured | None:
    """The change of a row on one place; None if the revisions share no dataset or no seed there."""
    old_counts = before.counts.get(old, {})
    new_counts = after.counts.get(new, {})
    datasets = [dataset for dataset in old_counts if dataset in new_counts and dataset.role == role]
    seeds = _common_seeds(datasets, old_counts, new_counts)
    if not seeds:
        return None
    n_images = np.array([dataset.n_images for dataset in datasets])
    old_correct = correct_images(old_counts, datasets, seeds)
    new_correct = correct_images(new_counts, datasets, seeds)
    old_right = before.images(old, datasets, seeds)
    new_right = after.images(new, datasets, seeds)
    # Where images are compared, what both get right cancels out; counts cannot know it.
    comparison: Comparison
    if old_right is not None and new_right is not None:
        comparison = compare_images(new_right, old_right)
        by_image = True
        identical = all(np.array_equal(new_right[name], right) for name, right in old_right.items())
    else:
        comparison = compare_counts(new_correct, old_correct, n_images=n_images)
        by_image = False
        identical = np.array_equal(new_correct, old_correct)
    old_share = float((100.0 * old_correct / n_images[:, None]).mean())
    new_share = float((100.0 * new_correct / n_images[:, None]).mean())
    return _Measured(new, place, old_share, new_share, by_image, identical, comparison.fixed)


def _common_seeds(datasets: Sequence[TestImages], *rows: Counts) -> list[int]:
    """Seeds that all rows have on all datasets; none without datasets."""
    common: set[int] | None = None
    for dataset in datasets:
        for row in rows:
            seeds = set(row[dataset])
            common = seeds if common is None else common & seeds
    return sorted(common or ())


def correct_images(row: Counts, datasets: Sequence[TestImages], seeds: Sequence[int]) -> np.ndarray:
    """(D, K) correct images."""
    correct = np.zeros((len(datasets), len(seeds)), dtype=np.int64)
    for d, dataset in enumerate(datasets):
        for k, seed in enumerate(seeds):
            correct[d, k] = row[dataset][seed]
    return correct
