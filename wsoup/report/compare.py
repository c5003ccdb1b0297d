"""What changed between two revisions: params, the run's soup and its members, and other rows beyond noise.

Records and counts (reports/) are read from git, so any commit, branch, tag or DVC experiment that contains them will
do. Images that a row gets right are read from DVC's cache: then rows are compared image by image. Counts alone, of
another machine's run say, only bound the interval (`wsoup.statistics.noise.compare_counts`).
"""

import csv
import io
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wsoup.base.errors import MissingError
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.rows import FILE, Right, all_seeds, right_by_row
from wsoup.report import record
from wsoup.report.labels import soup_title
from wsoup.report.record import Record, differences, first_few
from wsoup.report.results import PLACES
from wsoup.runtime.process import git
from wsoup.statistics.advice import signed
from wsoup.statistics.noise import Estimate, Verdict, compare_counts, compare_images, judge

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


@dataclass(frozen=True)
class Revision:
    """One side of a comparison.

    Attributes:
        name: a git revision, a DVC experiment, or `WORKSPACE`.
        root: the repository.
    """

    name: str
    root: Path

    @cached_property
    def commit(self) -> str | None:
        """The commit; None for the workspace. Raises MissingError if there is no such revision."""
        if self.name == WORKSPACE:
            return None
        known = git("rev-parse", "--verify", "--quiet", f"{self.name}^{{commit}}", folder=self.root)
        refs = (git("for-each-ref", "--format=%(refname)", "refs/exps", folder=self.root) or "").split()
        experiments = {
            ref.rsplit("/", 1)[-1]: ref for ref in refs if ref.count("/") == 4
        }  # DVC has others beside these
        commit = known or experiments.get(self.name)
        if commit is None:
            raise MissingError(f"{self.name!r} is no revision and no experiment here; see `git log` and `dvc exp list`")
        return commit.strip()

    def text(self, path: Path) -> str:
        """A file as it is at this revision; raises MissingError if it is not there."""
        if self.commit is None:
            try:
                return (self.root / path).read_text(encoding="utf-8")
            except FileNotFoundError:
                raise MissingError(f"{path} does not exist; run `dvc repro report`") from None
        text = git("show", f"{self.commit}:{path.as_posix()}", folder=self.root)
        if text is None:
            raise MissingError(f"{path} is not in revision {self.name}; commit reports/ after `dvc repro`")
        return text

    @cached_property
    def record(self) -> Record:
        return Record.parse(self.text(record.FILE), origin=f"{record.FILE} of {self.name}")

    @cached_property
    def counts(self) -> dict[Key, Counts]:
        """The counts of every row."""
        rows: dict[Key, Counts] = {}
        for line in csv.DictReader(io.StringIO(self.text(COUNTS))):
            dataset = Dataset(line["dataset"], line["role"], int(line["n_images"]), line["images"])
            by_dataset = rows.setdefault((line["variant"], line["row"]), {})
            by_dataset.setdefault(dataset, {})[int(line["seed"])] = int(line["n_correct"])
        return rows

    @cached_property
    def right(self) -> dict[Key, Right]:
        """The images that rows get right; empty if DVC does not have them at hand."""
        files = {PRETRAINED: f"artifacts/results/{PRETRAINED}/{FILE}"}
        heads = self.record.params.get("heads")
        for name in heads if isinstance(heads, dict) else ():
            files[name] = f"artifacts/results/heads/{name}.parquet"
        rows: dict[Key, Right] = {}
        for variant, path in files.items():
            for (method, mode), right in right_by_row(self._stored(path)).items():
                rows[variant, method if mode == "centroid" else f"{method}_{mode}"] = right
        return rows

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
        key: the row.
        place: source, XD mean or DG mean, or a dataset's name.
        before, after: per cent.
        verdict: on the change, corrected for all that are judged together.
        by_image: whether images are compared, or counts alone.
    """

    key: Key
    place: str
    before: float
    after: float
    verdict: Verdict
    by_image: bool


def compare(first: str = "HEAD", second: str = WORKSPACE, *, root: Path = Path(), everything: bool = False) -> str:
    """What `wsoup compare` prints: at most `LINES` lines, or with `everything` all rows and datasets that changed."""
    before, after = Revision(first, root), Revision(second, root)
    changed = differences(before.record.params, after.record.params)
    main = changes(before, after, keys=[(main_row(before), main_row(after))])
    others = [(key, key) for key in before.counts if key in after.counts and key != main_row(after)]
    judged = [change for change in changes(before, after, keys=others) if change.verdict.mean]
    sure = sorted((change for change in judged if change.verdict.sure), key=lambda change: change.verdict.p)
    lines = [*_caveats(before, after), _wrapped("params: ", changed, limit=None if everything else 4)]
    lines += [f"{soup_title(after.record.soup):<16}{'before':>8}{'after':>8}{'change':>8}   {CONFIDENCE:.0%} interval"]
    lines += map(_line, main)
    lines += _members(before.record, after.record, limit=None if everything else 8)
    end = textwrap.wrap(_conclusion(changed, main), width=WIDTH)
    if everything:
        lines += ["", "every other row that changed:", *(f"{'/'.join(each.key)} {_line(each)}" for each in judged)]
    else:
        lines += _others(sure, n_judged=len({change.key for change in judged}), room=LINES - len(lines) - len(end))
    return "\n".join([line for line in lines if line is not None] + end)


def main_row(revision: Revision) -> Key:
    """The run's soup, all seeds together."""
    return PRETRAINED, all_seeds(revision.record.soup)


def changes(before: Revision, after: Revision, *, keys: Sequence[tuple[Key, Key]]) -> list[Change]:
    """Rows, each by its key before and after, on source, XD and DG; judged together.

    Only datasets with the same test images, and seeds, that both revisions have.
    """
    pairs = [(pair, role) for pair in keys for role in PLACES]
    measured = [_measured(before, after, keys=pair, role=role) for pair, role in pairs]
    known = [(pair[1], PLACES[role], *each) for (pair, role), each in zip(pairs, measured, strict=True) if each]
    verdicts = judge([estimate for *_, estimate, _ in known], confidence=CONFIDENCE)
    return [
        Change(key, place, old, new, verdict, by_image)
        for (key, place, old, new, _, by_image), verdict in zip(known, verdicts, strict=True)
    ]


def _measured(
    before: Revision, after: Revision, *, keys: tuple[Key, Key], role: str
) -> tuple[float, float, Estimate, bool] | None:
    """Per cent before and after, the estimate of the change, and whether it is by image; None if nothing is shared."""
    rows = [side.counts.get(key, {}) for side, key in zip((before, after), keys, strict=True)]
    group = [dataset for dataset in rows[0] if dataset in rows[1] and dataset.role == role]
    known = [set(row[dataset]) for dataset in group for row in rows]
    seeds = sorted(set.intersection(*known)) if known else []
    if not seeds:
        return None
    n_images = np.array([dataset.n_images for dataset in group])
    old, new = (np.array([[row[dataset][k] for k in seeds] for dataset in group]) for row in rows)
    first, second = (_images(side, key, group, seeds) for side, key in zip((before, after), keys, strict=True))
    by_image = first is not None and second is not None
    compared = compare_images(second, first) if first and second else compare_counts(new, old, n_images=n_images)
    means = [float((100.0 * counts / n_images[:, None]).mean()) for counts in (old, new)]
    return means[0], means[1], compared.fixed, by_image


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


def _wrapped(title: str, items: list[str], *, limit: int | None) -> str:
    """Some texts on one line, and how many are left out."""
    shown = items[:limit]
    more = f" and {len(items) - len(shown)} more" if len(items) > len(shown) else ""
    return title + (", ".join(shown) or "the same in both") + more


def _line(change: Change) -> str:
    verdict = change.verdict
    interval = f"[{signed(verdict.low)}, {signed(verdict.high)}]"
    by = "" if change.by_image else " (from counts)"
    columns = f"{change.before:>8.2f}{change.after:>8.2f}{change.verdict.mean:>+8.2f}"
    return f"{change.place:<16}{columns}   {interval:<16} {verdict.word}{by}"


def _members(before: Record, after: Record, *, limit: int | None) -> Iterator[str]:
    """Members that came and went, in words."""
    old, new = dict.fromkeys(before.members), dict.fromkeys(after.members)
    moves = {"came": [text for text in new if text not in old], "went": [text for text in old if text not in new]}
    for title, gone in moves.items():
        if gone:
            line = _wrapped(
                f"members that {title} ({len(gone)} of {len(new if title == 'came' else old)}): ", gone, limit=limit
            )
            yield line if limit is None else textwrap.shorten(line, width=WIDTH, placeholder=" ...")
    if list(old) == list(new):
        yield f"members: the same {len(new)}"


def _others(sure: list[Change], *, n_judged: int, room: int) -> Iterator[str]:
    """One line for every other row that changed by more than noise, in at most `room` lines."""
    rows: dict[Key, list[str]] = {}
    for change in sure:
        gain = f"{change.place} {signed(change.verdict.mean)} ({change.verdict.word})"
        rows.setdefault(change.key, []).append(gain)
    yield f"other rows that changed by more than noise: {len(rows)} of {n_judged} that changed"
    kept = list(rows.items())[: room - 1 if len(rows) < room else room - 2]
    for (variant, row), gains in kept:
        yield f"  {row if variant == PRETRAINED else f'{variant}/{row}'}: {', '.join(gains)}"
    if len(kept) < len(rows):
        yield f"  and {len(rows) - len(kept)} more: `--all`"


def _conclusion(changed: list[str], main: list[Change]) -> str:
    """What a reader may conclude about the run's soup."""
    cause = f"these {len(changed)} params" if changed else "no param changed"
    if len(changed) == 1:  # soups.word.k0 250 -> 50: k0 50
        key, _, values = changed[0].partition(" ")
        cause = f"{key.rpartition('.')[2]} {values.rpartition(' -> ')[2]}"
    parts = []
    for change in main:
        verdict = change.verdict
        points = f"{signed(verdict.mean)} points on {change.place} [{signed(verdict.low)}, {signed(verdict.high)}]"
        end = f"{verdict.word} by more than noise" if verdict.sure else "noise"
        parts.append(f"{points}: {end}")
    if all(not change.verdict.sure for change in main) and main:
        first = parts[0].removesuffix(": noise")
        return f"{cause}: {first}: no difference that this run can tell from noise, there or elsewhere."
    return f"{cause}: {'; '.join(parts) or 'nothing to compare'}."
