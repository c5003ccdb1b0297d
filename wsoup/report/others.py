"""The rows that an edit is not known to feed: how many of them changed between two revisions.

Rows of the same method or soup in other modes are counted by themselves, since whatever feeds one feeds them all.
"""

from collections.abc import Collection, Sequence

from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.right import all_seeds
from wsoup.evaluate.row_key import RowKey
from wsoup.report.changes import Change, changes
from wsoup.report.revisions import Revision
from wsoup.report.sentences import WIDTH, one_line_of
from wsoup.statistics.words import signed


def changes_of_others(before: Revision, after: Revision, *, shown: Collection[RowKey]) -> list[Change]:
    """Every other row that both revisions have, judged together."""
    keys = [(key, key) for key in before.counts if key in after.counts and key not in shown]
    return changes(before, after, keys=keys)


def others_in_lines(others: Sequence[Change], *, fed: Collection[RowKey], everything: bool) -> list[str]:
    """How many of the other rows changed; with `everything` a line for each of them."""
    if everything:
        lines = ["every other row that changed:"]
        for change in others:
            if not change.identical:
                lines.append(f"  {_named(change)} {change.interval}")
        return lines
    siblings = []
    rest = []
    for change in others:
        if any(_are_siblings(change.row, row) for row in fed):
            siblings.append(change)
        else:
            rest.append(change)
    lines = []
    if siblings:
        lines.append(_counted("other modes and texts of these", siblings))
    if rest:
        lines.append(_counted("all other rows", rest))
    return lines


def _are_siblings(row: RowKey, other: RowKey) -> bool:
    """Whether two rows are of one finetuned method or head, or of one soup in other modes."""
    if row.variant != other.variant:
        return False
    return row.variant != PRETRAINED or _soup_of(row.row) == _soup_of(other.row)


def _soup_of(row: str) -> str:
    """The soup, or the baseline, that a row of the pretrained model is of, in any mode."""
    without_mode = row.removesuffix("_offsets").removesuffix("_score_mean")
    return without_mode.removesuffix("_soup").removesuffix(all_seeds(""))


def _counted(title: str, of_rows: Sequence[Change]) -> str:
    """``all other rows: 3 of 35 changed, none by more than noise``; rows that did are named, the surest first."""
    rows = {change.row for change in of_rows}
    changed = {change.row for change in of_rows if not change.identical}
    counted = f"{title}: {len(changed)} of {len(rows)} changed"
    if not changed:
        return counted
    # Dozens of rows move by an image or two with any edit; only what noise does not explain is worth a name.
    sure = [change for change in of_rows if change.verdict.sure]
    sure.sort(key=lambda change: change.verdict.p)
    if not sure:
        return f"{counted}, none by more than noise"
    named = [_named(change) for change in sure]
    return one_line_of(f"{counted}, by more than noise", named, width=WIDTH)


def _named(change: Change) -> str:
    """``coop/class_name, XD mean: +1.2``."""
    return f"{'/'.join(change.row)}, {change.place}: {signed(change.verdict.mean)}"
