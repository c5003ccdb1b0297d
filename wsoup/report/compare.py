"""What changed between two revisions: params, and accuracies with intervals.

Everything is read from git, so any commit, branch, tag or DVC experiment will do whose reports/ are in it.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.core.errors import MissingError
from wsoup.core.statistics import compare_counts
from wsoup.params.section import parse_yaml
from wsoup.report.means import MEANS
from wsoup.report.settings import flat
from wsoup.report.tables import Table

WORKSPACE = "workspace"
COUNTS, PARAMS = "reports/tables/counts.csv", "params.yaml"
CONFIDENCE = 0.95


def read_at(revision: str, path: str, *, root: Path) -> str:
    """The text of a file at a revision; ``workspace`` is the file as it is now.

    Raises:
        MissingError: no such revision, or it does not have the file.
    """
    if revision == WORKSPACE:
        try:
            return (root / path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise MissingError(f"{path} does not exist; run `dvc repro report`") from None
    text = _git("show", f"{resolve(revision, root=root)}:{path}", root=root)
    if text is None:
        raise MissingError(f"{path} is not in revision {revision}; commit reports/ after `dvc repro`")
    return text


def resolve(revision: str, *, root: Path) -> str:
    """The commit of a revision, or of a DVC experiment by its name."""
    commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", root=root)
    commit = commit or _experiment_refs(root).get(revision)
    if commit is None:
        raise MissingError(f"{revision!r} is no revision and no experiment here; see `git log` and `dvc exp list`")
    return commit.strip()


def experiments(*, root: Path) -> list[str]:
    """Names of the DVC experiments kept in this repository."""
    return sorted(_experiment_refs(root))


def _experiment_refs(root: Path) -> dict[str, str]:
    """Name -> git ref, ``refs/exps/<2 letters>/<38 letters>/<name>``; DVC keeps others beside them for itself."""
    refs = (_git("for-each-ref", "--format=%(refname)", "refs/exps", root=root) or "").split()
    return {ref.rsplit("/", 1)[-1]: ref for ref in refs if ref.count("/") == 4}


def _git(*arguments: str, root: Path) -> str | None:
    """What a git command prints; None where it fails."""
    ran = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return ran.stdout if ran.returncode == 0 else None


def params_changes(first: str, second: str) -> list[tuple[str, str, str]]:
    """(key, before, after) of every key that differs between two params.yaml texts; ``-`` where a text lacks it."""
    before, after = (flat(parse_yaml(text, origin=f"{PARAMS} of a revision")) for text in (first, second))
    pairs = {key: (before.get(key, "-"), after.get(key, "-")) for key in {**before, **after}}
    return [(key, _short(old), _short(new)) for key, (old, new) in pairs.items() if old != new]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


Row = dict[tuple[str, str], dict[int, int]]
"""(dataset, role) -> seed -> correct images."""


@dataclass(frozen=True)
class Counts:
    """counts.csv of one revision.

    Attributes:
        images: dataset -> number of test images, and a digest that says which; "" where it is not known.
        rows: by (variant, row).
    """

    images: dict[str, tuple[int, str]]
    rows: dict[tuple[str, str], Row]

    @classmethod
    def read(cls, text: str) -> Counts:
        """From the text of the file."""
        counts = cls({}, {})
        for line in csv.DictReader(io.StringIO(text)):
            counts.images[line["dataset"]] = int(line["n_images"]), line.get("images") or ""
            by_dataset = counts.rows.setdefault((line["variant"], line["row"]), {})
            by_dataset.setdefault((line["dataset"], line["role"]), {})[int(line["seed"])] = int(line["n_correct"])
        return counts

    def without(self, datasets: Collection[str]) -> dict[tuple[str, str], Row]:
        """Rows less some datasets, as far as anything is left of them."""
        kept = {
            name: {key: counts for key, counts in row.items() if key[0] not in datasets}
            for name, row in self.rows.items()
        }
        return {name: row for name, row in kept.items() if row}


def compare(first: str, second: str = WORKSPACE, *, root: str | Path = ".") -> tuple[Table, Table]:
    """Two revisions: the params that changed, and the accuracies of every row that changed, by dataset and role.

    Intervals are those of `wsoup.core.statistics` from counts, datasets held fixed. A dataset whose images are not the
    same in both is not compared.

    Returns:
        (params, accuracies).
    """
    root = Path(root)
    changes = params_changes(read_at(first, PARAMS, root=root), read_at(second, PARAMS, root=root))
    rows = [{"key": key, first: before, second: after} for key, before, after in changes]
    params = Table("params", "Params that changed", ["key", first, second], rows)
    before, after = (Counts.read(read_at(revision, COUNTS, root=root)) for revision in (first, second))
    unlike, unknown = other_images(before, after)
    old, new = before.without(unlike), after.without(unlike)
    shared = [name for name in old if name in new]
    changed = [name for name in shared if old[name] != new[name]]
    lines = [
        {"variant": name[0], "row": name[1], **line}
        for name in changed
        for line in _differences(old[name], new[name], images=before.images)
    ]
    columns = ["variant", "row", "dataset", "before", "after", "change", "low", "high"]
    notes = [
        f"Per cent; change in points with its {CONFIDENCE:.0%} interval over images and seeds; same datasets, images "
        "and seeds.",
        "Counts do not say which images changed: the interval is that of two classifiers that agree by chance only, "
        "and the true one is shorter.",
        *(f"{name} is not compared: {why}." for name, why in unlike.items()),
        *([f"Only the number of images could be compared of {', '.join(unknown)}."] if unknown else []),
        f"{len(shared) - len(changed)} of {len(shared)} rows are the same in both.",
    ]
    return params, Table("compare", f"{first} to {second}", columns, lines, notes)


def other_images(before: Counts, after: Counts) -> tuple[dict[str, str], list[str]]:
    """Datasets whose test images differ between two revisions, and why; and those known by their number alone."""
    unlike, unknown = {}, []
    for name in (name for name in before.images if name in after.images):
        (n, images), (m, others) = before.images[name], after.images[name]
        if n != m:
            unlike[name] = f"it has {n:,} images in the first and {m:,} in the second"
        elif images and others and images != others:
            unlike[name] = f"its {n:,} images are not the same ones in both"
        elif not (images and others):
            unknown.append(name)
    return unlike, unknown


def _differences(before: Row, after: Row, *, images: Mapping[str, tuple[int, str]]) -> list[dict[str, Any]]:
    """One line per dataset that both have, and one per role for the mean; only seeds that both have."""
    shared = [key for key in before if key in after]
    every = [set(row[key]) for key in shared for row in (before, after)]
    seeds = sorted(set.intersection(*every)) if every else []
    groups = {dataset: [(dataset, role)] for dataset, role in shared}
    groups |= {title: [key for key in shared if key[1] == role] for role, title in MEANS.items()}
    lines = []
    for title, keys in groups.items():
        if seeds and keys:
            old, new = (np.array([[row[key][seed] for seed in seeds] for key in keys]) for row in (before, after))
            n_images = np.array([images[dataset][0] for dataset, _ in keys])
            estimate = compare_counts(new, old, n_images=n_images).fixed
            low, high = estimate.interval(CONFIDENCE)
            line = {"dataset": title, "before": _mean(old, n_images), "after": _mean(new, n_images)}
            lines.append({**line, "change": estimate.mean, "low": low, "high": high})
    return lines


def _mean(counts: np.ndarray, n_images: np.ndarray) -> float:
    return float((100.0 * counts / n_images[:, None]).mean())
