"""What changed between two revisions: params, the run's soup and its members, and other rows beyond noise.

Records and counts (reports/) are read from git, so any commit, branch, tag or DVC experiment that contains them will
do. Images that a row gets right are read from DVC's cache: then rows are compared image by image. Counts alone, of
another machine's run say, only bound the interval (`wsoup.statistics.noise.compare_counts`).
"""

import csv
import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wsoup.base.errors import MissingError
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.rows import FILE, Right, all_seeds, right_by_row
from wsoup.paper.settings import flat
from wsoup.params.section import read_yaml
from wsoup.report import run
from wsoup.report.results import PLACES
from wsoup.report.run import WIDTH, Record
from wsoup.report.tables import soup_title
from wsoup.runtime.git import git
from wsoup.statistics.advice import signed
from wsoup.statistics.noise import Estimate, Verdict, compare_counts, compare_images, judge

WORKSPACE = "workspace"
CONFIDENCE = 0.95
LINES = 15
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

    Raises:
        MissingError: there is no such revision, or it has no report.
    """

    def __init__(self, name: str, *, root: Path) -> None:
        self.name, self.root = name, root
        self.commit = None if name == WORKSPACE else self._commit()
        self.record = Record.parse(self._text(run.FILE), origin=f"{run.FILE} of {name}")

    @cached_property
    def counts(self) -> dict[Key, Counts]:
        """Of every row."""
        rows: dict[Key, Counts] = {}
        for line in csv.DictReader(io.StringIO(self._text(Path("reports/tables/counts.csv")))):
            dataset = Dataset(line["dataset"], line["role"], int(line["n_images"]), line["images"])
            row = rows.setdefault((line["variant"], line["row"]), {})
            row.setdefault(dataset, {})[int(line["seed"])] = int(line["n_correct"])
        return rows

    @cached_property
    def right(self) -> dict[Key, Right]:
        """Which images rows get right; empty if DVC does not have them at hand."""
        files = {head: f"heads/{head}.parquet" for head in self.record.params.get("heads", ())}
        return {
            (variant, method if mode == "centroid" else f"{method}_{mode}"): right
            for variant, path in {PRETRAINED: f"{PRETRAINED}/{FILE}", **files}.items()
            for (method, mode), right in right_by_row(self._stored(f"artifacts/results/{path}")).items()
        }

    def images(self, key: Key, datasets: list[Dataset], seeds: list[int]) -> Right | None:
        """Which images a row gets right with some seeds; None if they are not known or do not fit the counts."""
        chosen: Right = {}
        for dataset in datasets:
            counts = dict(sorted(self.counts[key][dataset].items()))
            known = self.right.get(key, {}).get(dataset.name)
            if known is None or known.sum(axis=1).tolist() != list(counts.values()):
                return None
            chosen[dataset.name] = known[[list(counts).index(seed) for seed in seeds]]
        return chosen

    def _commit(self) -> str:
        """The hash of a revision, or of an experiment by its name."""
        known = git("rev-parse", "--verify", "--quiet", f"{self.name}^{{commit}}", folder=self.root)
        experiment = f"refs/exps/*/*/{self.name}"
        known = known or git("for-each-ref", "--format=%(objectname)", experiment, folder=self.root)
        if not known:
            raise MissingError(f"{self.name!r} is no revision and no experiment here; see `git log` and `dvc exp list`")
        return known.split()[0]

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

            with dvc.api.open(path, repo=str(self.root), rev=self.commit, mode="rb") as file:
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

    def interval(self) -> str:
        """The interval of the change and its verdict, in columns."""
        interval = f"[{signed(self.verdict.low)}, {signed(self.verdict.high)}]"
        return f"{interval:<16} {self.verdict.word}{'' if self.by_image else ' (from counts)'}"


def compare(first: str = "HEAD", second: str = WORKSPACE, *, root: Path = Path(), everything: bool = False) -> str:
    """What `wsoup compare` prints: at most `LINES` lines, or with `everything` all rows that changed."""
    before, after = Revision(first, root=root), Revision(second, root=root)
    old, new = before.record, after.record
    rows = [(PRETRAINED, all_seeds(each.soup)) for each in (old, new)]
    main = changes(before, after, keys=[(rows[0], rows[1])])
    others = [(key, key) for key in before.counts if key in after.counts and key != rows[1]]
    judged = [change for change in changes(before, after, keys=others) if change.verdict.mean]
    params, width = differences(old.params, new.params), 10**6 if everything else WIDTH
    members = {"came": set(new.members) - set(old.members), "went": set(old.members) - set(new.members)}
    lines = [
        *_caveats(before, after),
        listed("params", params or ["the same in both"], width=width),
        f"{soup_title(new.soup):<16}{'before':>8}{'after':>8}{'change':>8}   {CONFIDENCE:.0%} interval",
        *(f"{c.place:<16}{c.before:>8.2f}{c.after:>8.2f}{c.verdict.mean:>+8.2f}   {c.interval()}" for c in main),
        *(
            listed(f"members that {what} ({len(texts)})", sorted(texts), width=width)
            for what, texts in members.items()
            if texts
        ),
    ]
    conclusion = textwrap.wrap(_conclusion(params, main), width=WIDTH)
    title, shown = "every other row that changed:", judged
    if not everything:
        sure = sorted((change for change in judged if change.verdict.sure), key=lambda change: change.verdict.p)
        title = f"other rows that changed by more than noise: {len(sure)} of {len(judged)} that changed"
        shown = sure[: LINES - len(lines) - len(conclusion) - 1]
    lines += [title, *(f"  {'/'.join(c.row)}, {c.place}: {signed(c.verdict.mean)} {c.interval()}" for c in shown)]
    return "\n".join([*lines, *conclusion])


def changes(before: Revision, after: Revision, *, keys: Sequence[tuple[Key, Key]]) -> list[Change]:
    """Rows, each by its key before and after, on source, XD and DG; judged together.

    Only datasets with the same test images, and seeds, that both revisions have.
    """
    found: list[tuple[tuple[Key, str, float, float, bool], Estimate]] = []
    for old, new in keys:
        rows = before.counts.get(old, {}), after.counts.get(new, {})
        for role, place in PLACES.items():
            group = [dataset for dataset in rows[0] if dataset in rows[1] and dataset.role == role]
            seeds = sorted(set.intersection(*(set(row[dataset]) for dataset in group for row in rows)) if group else ())
            if not seeds:
                continue
            n_images = np.array([dataset.n_images for dataset in group])
            counts = [np.array([[row[dataset][k] for k in seeds] for dataset in group]) for row in rows]
            first, second = before.images(old, group, seeds), after.images(new, group, seeds)
            known = first is not None and second is not None
            compared = (
                compare_images(second, first)
                if first is not None and second is not None
                else compare_counts(counts[1], counts[0], n_images=n_images)
            )
            shares = [float((100.0 * each / n_images[:, None]).mean()) for each in counts]
            found.append(((new, place, shares[0], shares[1], known), compared.fixed))
    verdicts = judge([estimate for _, estimate in found], confidence=CONFIDENCE)
    return [Change(*about, verdict) for (about, _), verdict in zip(found, verdicts, strict=True)]


# ------------------------------------------------------------------------------------------------------------- lines


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """``soups.word.k0 250 -> 50`` for every dotted key that differs; ``-`` where a side lacks it."""
    old, new = flat(before), flat(after)
    pairs = {key: (old.get(key, "-"), new.get(key, "-")) for key in {**old, **new}}
    return [f"{key} {_short(a)} -> {_short(b)}" for key, (a, b) in pairs.items() if a != b]


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 24 else f"{text[:21]}..."


def listed(title: str, items: list[str], *, width: int) -> str:
    """Some texts on one line, cut to some columns."""
    return textwrap.shorten(f"{title}: {', '.join(items)}", width=width, placeholder=" ...")


def edited(record: Record, *, root: Path) -> list[str]:
    """A line if params.yaml has changed since a record was written."""
    now = {name: section for name, section in read_yaml(root / "params.yaml").items() if name in record.params}
    changed = differences(record.params, now)
    line = f"{listed('params.yaml has changed since', changed, width=WIDTH - 17)}; run `dvc repro`"
    return [line] if changed else []


def _caveats(before: Revision, after: Revision) -> Iterator[str]:
    """What a reader must know first: another machine's figures, other images, params.yaml edited since."""
    if before.commit is not None and (PRETRAINED, all_seeds(before.record.soup)) not in before.right:
        yield f"{before.name} holds another machine's figures (DVC has no results of it here); commit a run of your own"
    names = [{d.name: d for row in side.counts.values() for d in row} for side in (before, after)]
    if other := [name for name, dataset in names[0].items() if names[1].get(name, dataset) != dataset]:
        yield listed("not compared, because their test images are others", other, width=WIDTH)
    if after.commit is None:
        yield from edited(after.record, root=after.root)


def _conclusion(changed: list[str], main: list[Change]) -> str:
    """What a reader may conclude about the run's soup."""
    cause = changed[0] if len(changed) == 1 else f"these {len(changed)} params" if changed else "no param changed"
    sure = [change for change in main if change.verdict.sure]
    said = ", ".join(f"{each.verdict.word} on {each.place} by {each.verdict.mean:+.1f}" for each in sure)
    return f"{cause}: {said}{', more than noise' if sure else 'no difference that this run can tell from noise'}"
