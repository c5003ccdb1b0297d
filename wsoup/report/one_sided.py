"""Rows that only one of two revisions has: new ones, and those that are gone."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from wsoup.evaluate.row_key import RowKey
from wsoup.report.changes import correct_images
from wsoup.report.fed import FedRow, every_row
from wsoup.report.results import PLACES
from wsoup.report.revisions import Revision
from wsoup.report.sentences import one_line_of

NEW = "new"
GONE = "gone"


class OneSided(NamedTuple):
    """A row on one place of the only revision that has it.

    Attributes:
        title: as it is shown.
        place: source, XD mean or DG mean.
        accuracy: per cent, mean over datasets and seeds.
        what: `NEW`, or `GONE`.
    """

    title: str
    place: str
    accuracy: float
    what: str


def rows_of_one(one: Revision, other: Revision, *, renamed: Collection[RowKey]) -> list[FedRow]:
    """The rows that only `one` has, without those that are compared under another name (`renamed`)."""
    rows = []
    for row in every_row(one.record):
        if row.key in one.counts and row.key not in other.counts and row.key not in renamed:
            rows.append(row)
    return rows


def what_one_has(
    before: Revision,
    after: Revision,
    *,
    new: Sequence[FedRow],
    gone: Sequence[FedRow],
    renamed: Collection[RowKey],
) -> str:
    """Rows, datasets and seeds that one run alone has: ``new: word soup; gone: seed 3``; "" if there are none.

    Args:
        before, after: the runs.
        new, gone: the rows that are shown, to be named by their titles.
        renamed: rows that are compared under another name.
    """
    parts = []
    for what, rows, one, other in ((NEW, new, after, before), (GONE, gone, before, after)):
        names = [row.title for row in rows]
        if not names and one.counts.keys() - other.counts.keys() - {*renamed}:
            names.append("rows")
        common = one.counts.keys() & other.counts.keys()
        for word, of_one, of_other in (
            ("dataset", _datasets(one, common), _datasets(other, common)),
            ("seed", _seeds(one, common), _seeds(other, common)),
        ):
            names += [f"{word} {each}" for each in sorted(of_one - of_other)]
        if names:
            parts.append(f"{what}: {', '.join(names)}")
    return "; ".join(parts)


def _datasets(revision: Revision, rows: Collection[RowKey]) -> set[str]:
    """Names of the datasets that some rows have."""
    return {dataset.name for key in rows for dataset in revision.counts[key]}


def _seeds(revision: Revision, rows: Collection[RowKey]) -> set[int]:
    """The seeds that some rows have."""
    return {seed for key in rows for by_seed in revision.counts[key].values() for seed in by_seed}


def on_places(rows: Sequence[FedRow], *, at: Revision, what: str) -> list[OneSided]:
    """Rows at the revision that has them, on source, XD and DG."""
    places = []
    for row in rows:
        for role, place in PLACES.items():
            accuracy = _accuracy(at, row.key, role=role)
            if accuracy is not None:
                places.append(OneSided(row.title, place, accuracy, what))
    return places


def _accuracy(revision: Revision, key: RowKey, *, role: str) -> float | None:
    """Per cent over the datasets of a role and the seeds that all of them have; None if there are none."""
    counts = revision.counts[key]
    datasets = [dataset for dataset in counts if dataset.role == role]
    if not datasets:
        return None
    seeds = sorted(set.intersection(*[set(counts[dataset]) for dataset in datasets]))
    if not seeds:
        return None
    n_images = np.array([dataset.n_images for dataset in datasets])
    return float((100.0 * correct_images(counts, datasets, seeds) / n_images[:, None]).mean())


def one_sided_line(row: OneSided) -> str:
    """A line of the table of `wsoup compare`."""
    place = f"{row.title[:17]}, {row.place}"
    before = "-"
    after = f"{row.accuracy:.2f}"
    if row.what == GONE:
        before, after = after, before
    return f"{place:<28}{before:>8}{after:>8}{'':>8}   {row.what}"


def others_on_one_side(before: Revision, after: Revision, *, shown: Collection[RowKey], width: int) -> Iterator[str]:
    """All other rows that are new or gone, a line for each kind, each with its accuracy on the first place it has."""
    for what, one, other in ((NEW, after, before), (GONE, before, after)):
        rows = []
        for key in one.counts:
            if key not in other.counts and key not in shown:
                places = on_places([FedRow(key, "/".join(key), ())], at=one, what=what)
                rows += [f"{row.title}, {row.place}: {row.accuracy:.1f}" for row in places[:1]]
        if rows:
            yield one_line_of(f"other rows that are {what} ({len(rows)})", rows, width=width)
