"""What changed between two revisions: params, the run's soup and its members, and other rows beyond noise.

Records and counts (reports/) are read from git, so any commit, branch, tag or DVC experiment that contains them will
do. Images that a row gets right are read from DVC's cache: then rows are compared image by image. Counts alone, of
another machine's run say, only bound the interval (`wsoup.statistics.noise.compare_counts`).
"""

import csv
import io
import textwrap
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wsoup.base.errors import MissingError
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.rows import FILE, Right, all_seeds, right_by_row
from wsoup.report import record
from wsoup.report.labels import soup_title
from wsoup.report.record import Record, differences, first_few
from wsoup.report.results import PLACES
from wsoup.runtime.process import git
from wsoup.statistics.advice import signed
from wsoup.statistics.noise import Verdict, compare_counts, compare_images, judge

WORKSPACE = "workspace"
COUNTS = Path("reports/tables/counts.csv")
CONFIDENCE = 0.95
LINES, WIDTH = 15, 100
"""At most, unless all are asked for."""
Key = tuple[str, str]
"""(variant, row)."""


class Dataset(NamedTuple):
    """One dataset of a revision; two are equal if their test images are."""

    name: str
    role: str
    n_images: int
    images: str
    """Digest of the test images."""


Counts = dict[Dataset, dict[int, int]]
"""Dataset -> seed -> correct images."""


class Revision:
    """One side of a comparison: what reports/ and DVC's cache hold of it.

    Attributes:
        name, root: a git revision, a DVC experiment or `WORKSPACE`, of the repository in a folder.
        commit: its hash; None for the workspace.
        record: of the run.
        counts: of every row.

    Raises:
        MissingError: there is no such revision, or it has no report.
    """

    def __init__(self, name: str, *, root: Path) -> None:
        self.name, self.root = name, root
        self.commit = None if name == WORKSPACE else self._commit()
        self.record = Record.parse(self._text(record.FILE), origin=f"{record.FILE} of {name}")
        self.counts: dict[Key, Counts] = {}
        for line in csv.DictReader(io.StringIO(self._text(COUNTS))):
            dataset = Dataset(line["dataset"], line["role"], int(line["n_images"]), line["images"])
            row = self.counts.setdefault((line["variant"], line["row"]), {})
            row.setdefault(dataset, {})[int(line["seed"])] = int(line["n_correct"])

    @cached_property
    def right(self) -> dict[Key, Right]:
        """Which images rows get right; empty if DVC does not have them at hand."""
        rows: dict[Key, Right] = {}
        heads = self.record.params.get("heads")
        files = {name: f"artifacts/results/heads/{name}.parquet" for name in (heads if isinstance(heads, dict) else ())}
        for variant, path in {PRETRAINED: f"artifacts/results/{PRETRAINED}/{FILE}", **files}.items():
            for (method, mode), right in right_by_row(self._stored(path)).items():
                rows[variant, method if mode == "centroid" else f"{method}_{mode}"] = right
        return rows

    def _commit(self) -> str:
        """The hash of a revision, or of an experiment by its name."""
        known = git("rev-parse", "--verify", "--quiet", f"{self.name}^{{commit}}", folder=self.root)
        refs = (git("for-each-ref", "--format=%(refname)", "refs/exps", folder=self.root) or "").split()
        experiments = {ref.rsplit("/", 1)[-1]: ref for ref in refs if ref.count("/") == 4}  # DVC has other refs beside
        if (commit := known or experiments.get(self.name)) is None:
            raise MissingError(f"{self.name!r} is no revision and no experiment here; see `git log` and `dvc exp list`")
        return commit.strip()

    def _text(self, path: Path) -> str:
        """A file as it is at this revision."""
        if self.commit is None:
            return store.require(self.root / path, made_by="report").read_text(encoding="utf-8")
        text = git("show", f"{self.commit}:{path.as_posix()}", folder=self.root)
        if text is None:
            raise MissingError(f"{path} is not in revision {self.name}; commit reports/ after `dvc repro`")
        return text

    def _stored(self, path: str) -> list[dict[str, object]]:
        """Lines of a Parquet file of this revision; none if DVC does not have it."""
        try:
            import dvc.api
            from pyarrow import parquet

            at = {} if self.commit is None else {"rev": self.commit}
            with dvc.api.open(path, repo=str(self.root), mode="rb", **at) as file:
                return parquet.read_table(io.BytesIO(file.read())).to_pylist()
        except Exception:  # not cached, no DVC, another layout: counts are still there
            return []


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

    def line(self) -> str:
        """Figures, interval and verdict in columns."""
        columns = f"{self.before:>8.2f}{self.after:>8.2f}{self.verdict.mean:>+8.2f}"
        return f"{self.place:<16}{columns}   {self._interval():<16} {self.verdict.word}{self._by()}"

    def short(self) -> str:
        """The row, and the change alone."""
        change = f"{signed(self.verdict.mean)} {self._interval()} {self.verdict.word}{self._by()}"
        return f"  {'/'.join(self.row)}, {self.place}: {change}"

    def _interval(self) -> str:
        return f"[{signed(self.verdict.low)}, {signed(self.verdict.high)}]"

    def _by(self) -> str:
        return "" if self.by_image else " (from counts)"


def compare(first: str = "HEAD", second: str = WORKSPACE, *, root: Path = Path(), everything: bool = False) -> str:
    """What `wsoup compare` prints: at most `LINES` lines, or with `everything` all rows that changed."""
    before, after = Revision(first, root=root), Revision(second, root=root)
    old, new = before.record, after.record
    main = changes(before, after, keys=[(main_row(before), main_row(after))])
    others = [(key, key) for key in before.counts if key in after.counts and key != main_row(after)]
    judged = [change for change in changes(before, after, keys=others) if change.verdict.mean]
    changed, room = differences(old.params, new.params), None if everything else WIDTH
    lines = [*_caveats(before, after), _listed("params", changed, room=room)]
    lines += [f"{soup_title(new.soup):<16}{'before':>8}{'after':>8}{'change':>8}   {CONFIDENCE:.0%} interval"]
    lines += [change.line() for change in main]
    for what, texts in (("came", set(new.members) - set(old.members)), ("went", set(old.members) - set(new.members))):
        if texts:
            lines.append(_listed(f"members that {what} ({len(texts)})", sorted(texts), room=room))
    conclusion = textwrap.wrap(_conclusion(changed, main), width=WIDTH)
    if everything:
        title, shown = "every other row that changed:", judged
    else:
        sure = sorted((change for change in judged if change.verdict.sure), key=lambda change: change.verdict.p)
        title, shown = f"other rows that changed by more than noise: {len(sure)} of {len(judged)} that changed", sure
        shown = sure[: LINES - len(lines) - len(conclusion) - 1]
    return "\n".join([*lines, title, *(each.short() for each in shown), *conclusion])


def main_row(revision: Revision) -> Key:
    """The run's soup, all seeds together."""
    return PRETRAINED, all_seeds(revision.record.soup)


def changes(before: Revision, after: Revision, *, keys: Sequence[tuple[Key, Key]]) -> list[Change]:
    """Rows, each by its key before and after, on source, XD and DG; judged together.

    Only datasets with the same test images, and seeds, that both revisions have.
    """
    known: list[tuple[Key, str, float, float, bool]] = []
    estimates = []
    for old, new in keys:
        rows = before.counts.get(old, {}), after.counts.get(new, {})
        for role, place in PLACES.items():
            group = [dataset for dataset in rows[0] if dataset in rows[1] and dataset.role == role]
            seeds = sorted(set.intersection(*(set(row[dataset]) for dataset in group for row in rows)) if group else ())
            if not seeds:
                continue
            n_images = np.array([dataset.n_images for dataset in group])
            counts = [np.array([[row[dataset][k] for k in seeds] for dataset in group]) for row in rows]
            first, second = _images(before, old, group, seeds), _images(after, new, group, seeds)
            if first is not None and second is not None:
                compared = compare_images(second, first)
            else:
                compared = compare_counts(counts[1], counts[0], n_images=n_images)
            shares = [float((100.0 * each / n_images[:, None]).mean()) for each in counts]
            known.append((new, place, shares[0], shares[1], first is not None and second is not None))
            estimates.append(compared.fixed)
    verdicts = judge(estimates, confidence=CONFIDENCE)
    return [Change(*each, verdict) for each, verdict in zip(known, verdicts, strict=True)]


def _images(side: Revision, key: Key, datasets: list[Dataset], seeds: list[int]) -> Right | None:
    """Which images a row gets right with some seeds; None if they are not known or do not fit the counts."""
    chosen: Right = {}
    for dataset in datasets:
        counts = dict(sorted(side.counts[key][dataset].items()))
        known = side.right.get(key, {}).get(dataset.name)
        if known is None or known.sum(axis=1).tolist() != list(counts.values()):
            return None
        chosen[dataset.name] = known[[list(counts).index(seed) for seed in seeds]]
    return chosen


# ------------------------------------------------------------------------------------------------------------- lines


def _caveats(before: Revision, after: Revision) -> Iterator[str]:
    """What a reader must know first: another machine's figures, other images, params.yaml edited since."""
    if before.commit is not None and not before.right:
        yield f"{before.name} holds another machine's figures (DVC has no results of it here): it differs by more than"
        yield "params. For your own: git stash; dvc repro; git commit -am baseline; git stash pop; dvc repro"
    names = [{d.name: d for row in side.counts.values() for d in row} for side in (before, after)]
    other = [name for name, dataset in names[0].items() if names[1].get(name, dataset) != dataset]
    if other:
        yield f"not compared, because their test images are others: {first_few(other)}"
    if after.commit is None:
        yield from (note for note in record.notes(after.record, root=after.root) if "has changed since" in note)


def _listed(title: str, items: list[str], *, room: int | None) -> str:
    """Some texts on one line, cut to some columns."""
    line = f"{title}: {', '.join(items) or 'the same in both'}"
    return line if room is None else textwrap.shorten(line, width=room, placeholder=" ...")


def _conclusion(changed: list[str], main: list[Change]) -> str:
    """What a reader may conclude about the run's soup."""
    cause = f"these {len(changed)} params" if changed else "no param changed"
    sure = [
        f"{change.verdict.word} on {change.place} by {change.verdict.mean:+.1f}"
        for change in main
        if change.verdict.sure
    ]
    end = f"{', '.join(sure)}, more than noise" if sure else "no difference that this run can tell from noise"
    return f"{changed[0] if len(changed) == 1 else cause}: {end}"
