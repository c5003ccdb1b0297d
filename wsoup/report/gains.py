"""The paper's "gain over" rows: its soups over each baseline, and models finetuned with a soup over those without.

The paper subtracts two rows of its zero-shot table. Here every such difference has an interval. Rows whose right images
are kept are compared image by image; of the others only counts are known, which makes their interval longer.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.right import Right, right_by_row
from wsoup.evaluate.row_key import RowKey, files_of_right, row_in_mode
from wsoup.evaluate.rows import row_name
from wsoup.paper import tables as paper
from wsoup.report.answer import RunAnswer
from wsoup.report.beside_paper import Beside, ShownRow, beside_paper
from wsoup.report.labels import TableRow
from wsoup.report.results import PLACES, Cells, Results
from wsoup.report.tables import MARK, Table, TableCells
from wsoup.statistics.noise import Comparison, Estimate, Verdict, compare_counts, compare_images, judge

ComparisonKey = tuple[RowKey, RowKey, str]
"""A row, another one, and a role."""
OURS = ("descriptor_soup", "descriptor_soup_offsets", "word_soup", "word_soup_score_mean")
"""The soups of the paper's zero-shot table."""
BASELINES = ("class_name", "ensemble", "gpt_centroids", "gpt_score_mean", "random_descriptors", "waffle")
"""The rows of that table without a soup or the offset trick."""
PLAIN = ("ce", "coop", "maple", "clipood")
"""Methods of the few-shot table that stand there with and without a word soup."""
BY_IMAGE = "images"
BY_COUNT = "counts"


class _Side(NamedTuple):
    """A row on one side of a difference."""

    row: ShownRow
    cells: Cells
    right: Right
    theirs: Mapping[str, Beside]


class _Difference(NamedTuple):
    """One row over another: by role, and whether images are compared or counts."""

    ours: _Side
    baseline: _Side
    estimates: Mapping[str, Estimate]
    compared_by: str


def known_verdicts(judged: RunAnswer) -> dict[ComparisonKey, Verdict]:
    """The verdicts on soups that the table of verdicts shows, by the keys of this table's rows."""
    verdicts: dict[ComparisonKey, Verdict] = {}
    others = {"class_name": RowKey(PRETRAINED, "class_name"), "ensemble": RowKey(PRETRAINED, "ensemble")}
    for comparison in judged.comparisons:
        row = row_in_mode(row_name(comparison.soup), judged.modes[comparison.soup])
        if comparison.rival in others:
            verdicts[RowKey(PRETRAINED, row), others[comparison.rival], comparison.role] = comparison.fixed
    return verdicts


def gains(
    results: Results, *, folder: Path, confidence: float, known: Mapping[ComparisonKey, Verdict] | None = None
) -> Table:
    """Differences of rows on source, XD and DG with their intervals, beside the paper's differences.

    Args:
        results: the run.
        folder: of its results, for the images that rows get right.
        confidence: of intervals, corrected for the differences of one row on one place.
        known: row, other row and role -> the verdict of the table of verdicts, which is shown here, too.
    """
    right = _read_right(results, folder=folder)
    differences: dict[tuple[RowKey, RowKey], _Difference] = {}
    for ours, baseline in pairs():
        first = _side(results, ours, right=right)
        second = _side(results, baseline, right=right)
        if first is not None and second is not None:
            differences[ours, baseline] = _difference(results, first, second)
    intervals = dict(known or {}) | _judged(differences, known=known or {}, confidence=confidence)
    lines: list[TableCells] = []
    for (ours, baseline), difference in differences.items():
        verdicts = {role: intervals[ours, baseline, role] for role in difference.estimates}
        lines.append(_line(results, difference, verdicts=verdicts))
    columns = ["method", "over"]
    for place in PLACES.values():
        shown = set().union(*lines)
        if place in shown:
            columns += [place, f"{place} (paper)", f"{place} (diff)", f"{place} low", f"{place} high"]
    columns.append("compared by")
    return Table("gains", "Gains over the baselines", columns, lines, _notes(lines, confidence=confidence))


def pairs() -> list[tuple[RowKey, RowKey]]:
    """The differences: a row over another one."""
    differences: list[tuple[RowKey, RowKey]] = []
    for row in OURS:
        for baseline in BASELINES:
            differences.append((RowKey(PRETRAINED, row), RowKey(PRETRAINED, baseline)))
    for method in PLAIN:
        diverse = RowKey(f"{method}_diverse", "word_soup_score_mean")
        differences.append((diverse, RowKey(method, "class_name")))
    return differences


def _notes(lines: Sequence[TableCells], *, confidence: float) -> list[str]:
    """What a reader of the table must know."""
    notes = [
        f"Differences in points; low to high is the {confidence:.0%} interval over images and seeds, datasets held "
        "fixed, corrected (Holm) for the differences of one row on one place; a comparison that the table of verdicts "
        "has, too, has its interval. Soups are means over seeds here: the answer's has the members of all seeds.",
        f"Compared by {BY_COUNT}: the images that the two rows get right are not kept, and the interval is too wide.",
    ]
    shown = set().union(*lines)
    if any(column.endswith(" (paper)") for column in shown):
        notes.append(
            "In brackets the difference of the paper's two rows, and ours minus it. "
            f"{MARK}: one of the rows is not comparable with the paper's; the reasons are below the tables of accuracy."
        )
    return notes


def _side(results: Results, key: RowKey, *, right: Mapping[str, Mapping[tuple[str, str], Right]]) -> _Side | None:
    """A row with what is known of it, given the right images by variant; None if this run does not have it."""
    variant, name = key
    row = results.row(name)
    cells = None if row is None else results.cells(variant, row)
    if row is None or cells is None:
        return None
    hits: Right = {}
    # With the offset trick a row has the same name in the file, but other images are right.
    if not row.offsets:
        hits = right[variant].get((row.method.name, row.mode), {})
    shown = ShownRow(results.title(variant, row), variant, row, _papers_figures(results, variant, row))
    return _Side(shown, cells, hits, beside_paper(results, shown))


def _read_right(results: Results, *, folder: Path) -> dict[str, Mapping[tuple[str, str], Right]]:
    """The images that rows get right: variant -> (method, mode); none of a variant whose file does not say."""
    methods = [variant for variant in results.variants if variant != PRETRAINED]
    right: dict[str, Mapping[tuple[str, str], Right]] = {}
    # No head is compared here.
    for variant, path in files_of_right(folder, methods=methods, heads=()).items():
        right[variant] = right_by_row(store.read_table(path).to_pylist()) if path.exists() else {}
    return right


def _papers_figures(results: Results, variant: str, row: TableRow) -> Mapping[str, float]:
    """The paper's figures for a row, from its table of zero-shot rows or of few-shot methods."""
    if variant == PRETRAINED:
        return paper.zero_shot(row.key, encoder=results.encoder)
    for line in paper.rows("few_shot"):
        if (line.variant, line.row) == (variant, row.key):
            return line.figures
    return {}


def _difference(results: Results, ours: _Side, baseline: _Side) -> _Difference:
    """One difference everywhere, before its interval is corrected."""
    estimates = {}
    compared_by = BY_IMAGE
    for role in PLACES:
        names = results.datasets(role)
        comparison, by = _compare(ours, baseline, names=names, seeds=results.seeds)
        if comparison is None:
            continue
        if by == BY_COUNT:
            compared_by = BY_COUNT
        estimates[role] = comparison.fixed
    return _Difference(ours, baseline, estimates, compared_by)


def _judged(
    differences: Mapping[tuple[RowKey, RowKey], _Difference],
    *,
    known: Mapping[ComparisonKey, Verdict],
    confidence: float,
) -> dict[ComparisonKey, Verdict]:
    """Verdicts on all differences that are not known yet, those of one row on one place corrected together."""
    questions: dict[tuple[RowKey, str], dict[ComparisonKey, Estimate]] = {}
    for (ours, baseline), difference in differences.items():
        for role, estimate in difference.estimates.items():
            key = (ours, baseline, role)
            if key not in known:
                questions.setdefault((ours, role), {})[key] = estimate
    verdicts: dict[ComparisonKey, Verdict] = {}
    for asked in questions.values():
        verdicts |= zip(asked, judge(list(asked.values()), confidence=confidence), strict=True)
    return verdicts


def _line(results: Results, difference: _Difference, *, verdicts: Mapping[str, Verdict]) -> TableCells:
    """One difference everywhere; `verdicts` by role."""
    ours, baseline, _, compared_by = difference
    cells: dict[str, object] = {"method": ours.row.label, "over": baseline.row.label}
    for role, verdict in verdicts.items():
        place = PLACES[role]
        cells |= {place: verdict.mean, f"{place} low": verdict.low, f"{place} high": verdict.high}
        # The source has no mean: its column is the dataset's own.
        column = results.datasets(role)[0] if role == "source" else place
        first = ours.theirs.get(column)
        second = baseline.theirs.get(column)
        if first is not None and second is not None:
            figure = first.figure - second.figure
            cells[f"{place} (paper)"] = round(figure, 2)
            cells[f"{place} (diff)"] = verdict.mean - figure
            if first.unlike or second.unlike:
                cells[f"{place} (mark)"] = MARK
    cells["compared by"] = compared_by
    return cells


def _compare(
    ours: _Side, baseline: _Side, *, names: Sequence[str], seeds: Sequence[int]
) -> tuple[Comparison | None, str]:
    """The comparison on some datasets and how it was made; None if there is no dataset or a count is missing."""
    our_counts = _counts(ours.cells, names=names, seeds=seeds)
    other_counts = _counts(baseline.cells, names=names, seeds=seeds)
    if our_counts is None or other_counts is None:
        return None, BY_COUNT
    our_right = _fitting(ours.right, counts=our_counts, names=names)
    other_right = _fitting(baseline.right, counts=other_counts, names=names)
    if our_right is not None and other_right is not None:
        return compare_images(our_right, other_right), BY_IMAGE
    n_images = {line.dataset: line.n_images for line in ours.cells.lines}
    sizes = np.array([n_images[name] for name in names])
    return compare_counts(our_counts, other_counts, n_images=sizes), BY_COUNT


def _counts(cells: Cells, *, names: Sequence[str], seeds: Sequence[int]) -> np.ndarray | None:
    """(D, K) correct images; None if there is no dataset or one is missing."""
    known = {(line.dataset, line.seed): line.n_correct for line in cells.lines}
    counts = np.zeros((len(names), len(seeds)), dtype=np.int64)
    for d, name in enumerate(names):
        for k, seed in enumerate(seeds):
            if (name, seed) not in known:
                return None
            counts[d, k] = known[name, seed]
    return counts if len(names) else None


def _fitting(right: Right, *, counts: np.ndarray, names: Sequence[str]) -> Right | None:
    """The right images of some datasets; None if they are not known, or of a row of another size."""
    chosen: Right = {}
    for name, of_dataset in zip(names, counts.tolist(), strict=True):
        hits = right.get(name)
        if hits is None or hits.sum(axis=1).tolist() != of_dataset:
            return None
        chosen[name] = hits
    return chosen
