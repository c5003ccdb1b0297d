"""What `wsoup compare` prints of two revisions: whether an edit helped, the rows it feeds, the others in a line."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from wsoup.base.errors import MissingError, ParamsError
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.right import all_seeds
from wsoup.params.graph import DVC_YAML
from wsoup.params.reading import parse_yaml, read_yaml
from wsoup.report.changes import CONFIDENCE, Change, changes
from wsoup.report.edits import changed_params, edited, edited_since, in_words
from wsoup.report.fed import FedRow, fed_rows
from wsoup.report.one_sided import GONE, NEW, on_places, one_sided_line, others_on_one_side, rows_of_one, what_one_has
from wsoup.report.others import changes_of_others, others_in_lines
from wsoup.report.pairs import key_before, renamed_keys
from wsoup.report.record import FILE, Record
from wsoup.report.revisions import WORKSPACE, Revision, TestImages
from wsoup.report.sentences import WIDTH, one_line_of
from wsoup.runtime.git import git
from wsoup.statistics.words import magnitude, worded

FIRST = 3
"""Rows of both runs that are shown first, at most, unless all are asked for; as many new ones, and ones gone."""


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
    params = in_words(edits)
    renamed = renamed_keys(before, after)
    new = rows_of_one(after, before, renamed=renamed)
    gone = rows_of_one(before, after, renamed=renamed)
    only_new = {row.key for row in new}
    fed = [row for row in fed_rows(after.record, changed=list(edits)) if row.key not in only_new]
    not_run = _not_run(before, after)
    caveats = _caveats(before, after)
    width = WIDTH
    if everything:
        width = 10**6
    else:
        # Fewer rows below both kinds of remark, so that all of it stays on one screen.
        most = FIRST - 1 if not_run and caveats else FIRST
        fed, new, gone = fed[:most], new[:most], gone[:most]
    shown = _changes_of(fed, before=before, after=after)
    others = changes_of_others(before, after, shown={row.key for row in fed})
    on_one_side = what_one_has(before, after, new=new, gone=gone, renamed=renamed)
    if (new or gone) and not shown:
        conclusion = f"No row of both runs depends on the edit; {on_one_side}."
    else:
        conclusion = _conclusion(shown, others=others, on_one_side=on_one_side)
    title = "params"
    if not_run:
        # Else what both runs have would seem to be what the edit did.
        conclusion = f"Without that edit: {conclusion[0].lower()}{conclusion[1:]}"
        title = "params without that edit"
    lines = [*not_run, *textwrap.wrap(conclusion, width=WIDTH), *caveats]
    lines += _all_of(title, params or ["the same in both"], width=width)
    lines.append(_header())
    for change, title in shown:
        lines.append(_line(change, title=title))
    lines += map(one_sided_line, [*on_places(new, at=after, what=NEW), *on_places(gone, at=before, what=GONE)])
    lines += _members(before.record, after.record, width=width)
    lines += others_in_lines(others, fed={row.key for row in fed}, everything=everything)
    known = {row.key for row in (*new, *gone)} | renamed
    lines += others_on_one_side(before, after, shown=known, width=width)
    return "\n".join(lines)


def _changes_of(fed: Sequence[FedRow], *, before: Revision, after: Revision) -> list[tuple[Change, str]]:
    """Changes of some rows with their titles.

    The places of a row are judged together, each row by itself: it is a question of its own.
    """
    shown = []
    for row in fed:
        old_key = key_before(row.key, before=before, after=after)
        of_row = changes(before, after, keys=[(old_key, row.key)])
        shown += [(change, row.title) for change in of_row]
    return shown


def _header() -> str:
    return f"{'':<28}{'before':>8}{'after':>8}{'change':>8}   {CONFIDENCE:.0%} interval"


def _line(change: Change, *, title: str) -> str:
    figures = f"{change.before:>8.2f}{change.after:>8.2f}{change.verdict.mean:>+8.2f}"
    where = f"{title[:17]}, {change.place}"
    return f"{where:<28}{figures}   {change.interval}"


def _members(old: Record, new: Record, *, width: int) -> list[str]:
    """Which texts of the run's soup came and went."""
    lines = []
    came = set(new.members) - set(old.members)
    went = set(old.members) - set(new.members)
    for what, texts in (("came", came), ("went", went)):
        if texts:
            lines.append(one_line_of(f"members that {what} ({len(texts)})", sorted(texts), width=width))
    return lines


def _all_of(title: str, items: Sequence[str], *, width: int) -> list[str]:
    """Some texts on one line, or on a line each if they are too long for it: none is left out."""
    line = f"{title}: {', '.join(items)}"
    if len(line) <= width:
        return [line]
    return [f"{title}:", *(f"  {item}" for item in items)]


def uncommitted(record: Record, *, root: Path) -> list[str]:
    """What to do about figures that are not those of HEAD; no line in a folder whose figures are committed."""
    status = git("status", "--porcelain", "--", str(FILE), folder=root) or ""
    if not status.strip():
        return []
    committed = git("show", f"HEAD:./{FILE.as_posix()}", folder=root)
    if committed is None:
        return ["These results are not committed. Commit them as your baseline: git add . && git commit -m baseline"]
    before = Record.parse(committed, origin=f"{FILE} of HEAD")
    if before.params != record.params:
        return ["These results are not those of HEAD: `wsoup compare` shows what changed."]
    return [
        "Your figures differ from the committed ones, which other code or another CPU made.",
        "Commit them as your baseline: git commit -am baseline",
    ]


def _caveats(before: Revision, after: Revision) -> list[str]:
    """What a reader must know of the figures: another machine's, other images, a commit of other params."""
    lines = []
    if before.commit is not None and (PRETRAINED, all_seeds(before.record.soup)) not in before.right:
        held = ", ".join(sorted({key.variant for key in before.right}))
        # A head's right images may be the same on both machines, and are then in the cache.
        of_it = f"of its results only those of {held}" if held else "no results of it"
        lines.append(f"{before.name} holds another machine's figures (DVC has {of_it} here); commit a run of your own")
    old = _datasets(before)
    new = _datasets(after)
    other = [name for name, dataset in old.items() if new.get(name, dataset) != dataset]
    if other:
        lines.append(one_line_of("not compared, because their test images differ", other, width=WIDTH))
    for revision in (before, after):
        if revision.commit is not None:
            lines += _committed_without_a_run(revision)
    return lines


def _not_run(before: Revision, after: Revision) -> list[str]:
    """Lines if the workspace's params.yaml was edited after the run that is compared, or its dvc.yaml is broken."""
    for revision in (before, after):
        if revision.commit is None:
            return [*_broken(revision.root / DVC_YAML), *edited(revision.record, root=revision.root)]
    return []


def _broken(dvc_yaml: Path) -> list[str]:
    """A line if a dvc.yaml is not YAML: no edit would run."""
    if not dvc_yaml.exists():
        return []
    try:
        read_yaml(dvc_yaml)
    except ParamsError as error:
        return textwrap.wrap(f"Nothing can run: {error}", width=WIDTH)
    return []


def _committed_without_a_run(revision: Revision) -> list[str]:
    """Lines if a commit holds a params.yaml that is edited, or broken, and the results of the params before."""
    origin = f"params.yaml of {revision.name}"
    try:
        text = revision.text(Path("params.yaml"))
    except MissingError:
        return []  # a commit may have reports/ alone
    try:
        sections = parse_yaml(text, origin=origin)
    except ParamsError as error:
        return textwrap.wrap(str(error), width=WIDTH)
    title = f"results of {revision.name} are of other params than its params.yaml"
    return edited_since(revision.record, sections=sections, origin=origin, title=title)


def _datasets(revision: Revision) -> dict[str, TestImages]:
    """The test images of each dataset, by its name."""
    datasets = {}
    for counts in revision.counts.values():
        for dataset in counts:
            datasets[dataset.name] = dataset
    return datasets


def _conclusion(shown: Sequence[tuple[Change, str]], *, others: Sequence[Change], on_one_side: str) -> str:
    """Whether it helped: the rows that are shown first, whether anything changed at all, and what one run alone has."""
    if not shown:
        return "Nothing to compare: the runs share none of these rows on the same test images."
    all_changes = [*(change for change, _ in shown), *others]
    if all(change.identical for change in all_changes):
        if on_one_side:
            return f"No row of both runs changed; {on_one_side}."
        if all(change.by_image for change, _ in shown):
            return "The runs are identical: the same images are right, and no count differs."
        return "The runs are identical as far as counts show: none differs."
    better: list[str] = []
    worse: list[str] = []
    for change, title in shown:
        if change.verdict.sure:
            by = f"by {magnitude(change.verdict.mean)} points"
            said = f"{title} {worded(change.verdict)} on {change.place} {by}"
            if change.verdict.mean > 0:
                better.append(said)
            else:
                worse.append(said)
    sure = "; ".join([*better, *worse])
    if better and worse:
        return f"It helped in part: {sure}, more than noise."
    if better:
        return f"It helped: {sure}, more than noise."
    if worse:
        return f"It did not help: {sure}, more than noise."
    if all(change.identical for change, _ in shown):
        return "It changed none of these rows: the same images are right."
    return "It did not clearly help: no change distinguishable from noise."
