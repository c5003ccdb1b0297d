"""What changed between two revisions: params, the rows that these feed, the soup's members, other rows beyond noise.

Rows whose right images are known at both revisions are compared image by image. Counts alone, of another machine's run
say, only bound the interval (`wsoup.statistics.noise.compare_counts`).
"""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.rows import all_seeds, row_name
from wsoup.paper.settings import flat
from wsoup.params.reading import read_yaml
from wsoup.report.fed import FedRow, fed_rows
from wsoup.report.record import Record
from wsoup.report.results import PLACES
from wsoup.report.revisions import WORKSPACE, Counts, Dataset, Key, Revision
from wsoup.report.sentences import WIDTH
from wsoup.statistics.advice import signed
from wsoup.statistics.noise import Comparison, Estimate, Verdict, compare_counts, compare_images, judge

CONFIDENCE = 0.95
FIRST = 3
"""Rows that are shown first, at most, unless all are asked for."""


class Change(NamedTuple):
    """One row on one place.

    Attributes:
        row: its key in the later revision.
        place: source, XD mean or DG mean.
        before, after: per cent.
        by_image: whether images are compared, or counts alone.
        verdict: on the change, corrected for all that are judged together.
    """

    row: Key
    place: str
    before: float
    after: float
    by_image: bool
    verdict: Verdict

    @property
    def interval(self) -> str:
        """The interval of the change and its verdict, in columns."""
        interval = f"[{signed(self.verdict.low)}, {signed(self.verdict.high)}]"
        text = f"{interval:<16} {self.verdict.word}"
        return text if self.by_image else f"{text} (from counts)"


def compare(first: str = "HEAD", second: str = WORKSPACE, *, root: Path = Path(), everything: bool = False) -> str:
    """What `wsoup compare` prints: the rows that the edited params feed, then the others in a line.

    Args:
        first, second: revisions, experiments or `WORKSPACE`.
        root: folder of the repository.
        everything: all rows that are fed, and a line for each other row that changed.
    """
    before = Revision(first, root=root)
    after = Revision(second, root=root)
    edits = changed_params(before.record.params, after.record.params)
    params = _sentences(edits)
    fed = fed_rows(after.record, changed=list(edits))
    lines = _caveats(before, after)
    width = WIDTH
    if everything:
        width = 10**6
    elif lines:
        fed = fed[: FIRST - 1]  # all of it is one screen
    else:
        fed = fed[:FIRST]
    lines.append(listed("params", params or ["the same in both"], width=width))
    shown, new = _changes_of(fed, before=before, after=after)
    lines.append(_header())
    for change, title in shown:
        lines.append(_line(change, title=title))
    if new:
        lines.append(listed(f"not in {before.name}", new, width=width))
    lines += _members(before.record, after.record, width=width)
    lines += _others(before, after, shown={row.key for row in fed}, everything=everything)
    lines += textwrap.wrap(_conclusion(params, shown), width=WIDTH)
    return "\n".join(lines)


def _changes_of(
    fed: Sequence[FedRow], *, before: Revision, after: Revision
) -> tuple[list[tuple[Change, str]], list[str]]:
    """Changes of some rows with their titles, and the titles of rows that only the later revision has.

    The places of a row are judged together, each row by itself: it is a question of its own.
    """
    shown = []
    new = []
    for row in fed:
        of_row = changes(before, after, keys=[(_key_before(row.key, before=before, after=after), row.key)])
        shown += [(change, row.title) for change in of_row]
        if not of_row and row.key in after.counts:
            new.append(row.title)
    return shown, new


def _key_before(key: Key, *, before: Revision, after: Revision) -> Key:
    """The earlier revision's key of a row; what a run is about may have another name there."""
    if key == (PRETRAINED, all_seeds(after.record.soup)):
        return PRETRAINED, all_seeds(before.record.soup)
    old = before.record.params
    method = old["report"].get("method")
    if method is not None and key[0] == after.record.params["report"].get("method"):
        return method, row_name(old["finetune"]["methods"][method]["soup"])
    return key


def changes(before: Revision, after: Revision, *, keys: Sequence[tuple[Key, Key]]) -> list[Change]:
    """Rows, each by its key before and after, on source, XD and DG; judged together.

    Only datasets with the same test images, and seeds, that both revisions have.
    """
    measured: list[_Measured] = []
    for old, new in keys:
        for role, place in PLACES.items():
            change = _measure(before, after, old=old, new=new, role=role, place=place)
            if change is not None:
                measured.append(change)
    verdicts = judge([change.estimate for change in measured], confidence=CONFIDENCE)
    judged = []
    for change, verdict in zip(measured, verdicts, strict=True):
        judged.append(Change(change.row, change.place, change.before, change.after, change.by_image, verdict))
    return judged


class _Measured(NamedTuple):
    """A change before it is judged together with others."""

    row: Key
    place: str
    before: float
    after: float
    by_image: bool
    estimate: Estimate


def _measure(before: Revision, after: Revision, *, old: Key, new: Key, role: str, place: str) -> _Measured | None:
    """The change of a row on one place; None if the revisions share no dataset or no seed there."""
    old_counts = before.counts.get(old, {})
    new_counts = after.counts.get(new, {})
    datasets = [dataset for dataset in old_counts if dataset in new_counts and dataset.role == role]
    seeds = _common_seeds(datasets, old_counts, new_counts)
    if not seeds:
        return None
    n_images = np.array([dataset.n_images for dataset in datasets])
    old_correct = _correct(old_counts, datasets, seeds)
    new_correct = _correct(new_counts, datasets, seeds)
    old_right = before.images(old, datasets, seeds)
    new_right = after.images(new, datasets, seeds)
    comparison: Comparison
    if old_right is not None and new_right is not None:
        comparison = compare_images(new_right, old_right)
        by_image = True
    else:
        comparison = compare_counts(new_correct, old_correct, n_images=n_images)
        by_image = False
    old_share = float((100.0 * old_correct / n_images[:, None]).mean())
    new_share = float((100.0 * new_correct / n_images[:, None]).mean())
    return _Measured(new, place, old_share, new_share, by_image, comparison.fixed)


def _common_seeds(datasets: Sequence[Dataset], *rows: Counts) -> list[int]:
    """Seeds that all rows have on all datasets; none without datasets."""
    common: set[int] | None = None
    for dataset in datasets:
        for row in rows:
            seeds = set(row[dataset])
            common = seeds if common is None else common & seeds
    return sorted(common or ())


def _correct(row: Counts, datasets: Sequence[Dataset], seeds: Sequence[int]) -> np.ndarray:
    """(D, K) correct images."""
    correct = np.zeros((len(datasets), len(seeds)), dtype=np.int64)
    for d, dataset in enumerate(datasets):
        for k, seed in enumerate(seeds):
            correct[d, k] = row[dataset][seed]
    return correct


# ------------------------------------------------------------------------------------------------------------- lines


def _header() -> str:
    return f"{'':<28}{'before':>8}{'after':>8}{'change':>8}   {CONFIDENCE:.0%} interval"


def _line(change: Change, *, title: str) -> str:
    figures = f"{change.before:>8.2f}{change.after:>8.2f}{change.verdict.mean:>+8.2f}"
    where = f"{title[:17]}, {change.place}"
    return f"{where:<28}{figures}   {change.interval}"


def _others(before: Revision, after: Revision, *, shown: Collection[Key], everything: bool) -> list[str]:
    """The other rows in one line, the surest changes first; with `everything` a line for each that changed."""
    keys = [(key, key) for key in before.counts if key in after.counts and key not in shown]
    changed = [change for change in changes(before, after, keys=keys) if change.verdict.mean]
    if everything:
        lines = ["every other row that changed:"]
        for change in changed:
            lines.append(f"  {_named(change)} {change.interval}")
        return lines
    sure = [change for change in changed if change.verdict.sure]
    sure.sort(key=lambda change: change.verdict.p)
    title = f"other rows that changed by more than noise: {len(sure)} of {len(changed)} that changed"
    if not sure:
        return [title]
    return [listed(title, [_named(change) for change in sure], width=WIDTH)]


def _named(change: Change) -> str:
    """``coop/class_name, XD mean: +1.2``."""
    return f"{'/'.join(change.row)}, {change.place}: {signed(change.verdict.mean)}"


def _members(old: Record, new: Record, *, width: int) -> list[str]:
    """Which texts of the run's soup came and went."""
    lines = []
    came = set(new.members) - set(old.members)
    went = set(old.members) - set(new.members)
    for what, texts in (("came", came), ("went", went)):
        if texts:
            lines.append(listed(f"members that {what} ({len(texts)})", sorted(texts), width=width))
    return lines


def changed_params(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[object, object]]:
    """Every dotted key whose value differs, with both values; ``-`` where a side lacks it."""
    old = flat(before)
    new = flat(after)
    changed = {}
    for key in {**old, **new}:
        was = old.get(key, "-")
        now = new.get(key, "-")
        if was != now:
            changed[key] = (was, now)
    return changed


def _sentences(edits: Mapping[str, tuple[object, object]]) -> list[str]:
    """``soups.word.k0 250 -> 50`` for every edited key."""
    return [f"{key} {_short(was)} -> {_short(now)}" for key, (was, now) in edits.items()]


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 24 else f"{text[:21]}..."


def listed(title: str, items: Sequence[str], *, width: int) -> str:
    """Some texts on one line, cut to some columns."""
    return textwrap.shorten(f"{title}: {', '.join(items)}", width=width, placeholder=" ...")


def edited(record: Record, *, root: Path) -> list[str]:
    """A line if params.yaml has changed since a record was written."""
    sections = read_yaml(root / "params.yaml")
    now = {name: section for name, section in sections.items() if name in record.params}
    changed = _sentences(changed_params(record.params, now))
    if not changed:
        return []
    return [f"{listed('params.yaml has changed since', changed, width=WIDTH - 17)}; run `dvc repro`"]


def _caveats(before: Revision, after: Revision) -> list[str]:
    """What a reader must know first: another machine's figures, other images, params.yaml edited since."""
    lines = []
    if before.commit is not None and (PRETRAINED, all_seeds(before.record.soup)) not in before.right:
        lines.append(
            f"{before.name} holds another machine's figures (DVC has no results of it here); commit a run of your own"
        )
    old = _datasets(before)
    new = _datasets(after)
    other = [name for name, dataset in old.items() if new.get(name, dataset) != dataset]
    if other:
        lines.append(listed("not compared, because their test images differ", other, width=WIDTH))
    if after.commit is None:
        lines += edited(after.record, root=after.root)
    return lines


def _datasets(revision: Revision) -> dict[str, Dataset]:
    """By name."""
    datasets = {}
    for counts in revision.counts.values():
        for dataset in counts:
            datasets[dataset.name] = dataset
    return datasets


def _conclusion(changed: Sequence[str], shown: Sequence[tuple[Change, str]]) -> str:
    """What a reader may conclude about the rows that are shown first."""
    cause = f"these {len(changed)} params"
    if not changed:
        cause = "no param changed"
    elif len(changed) == 1:
        cause = changed[0]
    sure = []
    for change, title in shown:
        if change.verdict.sure:
            sure.append(f"{title} {change.verdict.word} on {change.place} by {change.verdict.mean:+.1f}")
    if not sure:
        return f"{cause}: no change distinguishable from noise"
    return f"{cause}: {', '.join(sure)}, more than noise"
