"""What changed between two revisions: params, and accuracies with paired intervals.

Everything is read from git, so any commit, branch, tag or DVC experiment will do whose reports/ are in it.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.core.errors import MissingError
from wsoup.params.base.section import parse_yaml
from wsoup.report.means import MEANS, paired_interval
from wsoup.report.tables import Table

WORKSPACE = "workspace"
COUNTS, PARAMS = "reports/tables/counts.csv", "params.yaml"
SAMPLES, CONFIDENCE = 2000, 0.95


def read_at(revision: str, path: str, *, root: Path) -> str:
    """The text of a file at a revision; ``workspace`` is the file as it lies there.

    Raises:
        MissingError: no such revision, or it does not hold the file.
    """
    if revision == WORKSPACE:
        try:
            return (root / path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise MissingError(f"{path} does not exist; run `dvc repro report`") from None
    commit = resolve(revision, root=root)
    shown = _git("show", f"{commit}:{path}", root=root)
    if shown is None:
        raise MissingError(f"{path} is not in revision {revision}; commit reports/ after `dvc repro`")
    return shown


def resolve(revision: str, *, root: Path) -> str:
    """The commit of a revision, or of a DVC experiment by its name."""
    found = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", root=root)
    if found is None:
        refs = (_git("for-each-ref", "--format=%(refname)", "refs/exps", root=root) or "").split()
        found = next((ref for ref in refs if ref.rsplit("/", 1)[-1] == revision), None)
    if found is None:
        raise MissingError(f"{revision!r} is no revision and no experiment here; see `git log` and `dvc exp list`")
    return found.strip()


def experiments(*, root: Path) -> list[str]:
    """Names of the DVC experiments kept in this repository."""
    refs = (_git("for-each-ref", "--format=%(refname)", "refs/exps", root=root) or "").split()
    return sorted({ref.rsplit("/", 1)[-1] for ref in refs if ref.count("/") == 4})


def _git(*arguments: str, root: Path) -> str | None:
    """What a git command prints; None where it fails."""
    ran = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return ran.stdout if ran.returncode == 0 else None


def flat(value: Any, *, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as dotted keys.

    >>> flat({"a": {"b": 1}, "c": [2]})
    {'a.b': 1, 'c': [2]}
    """
    if isinstance(value, Mapping) and value:
        return {
            key: found
            for name, part in value.items()
            for key, found in flat(part, prefix=f"{prefix}.{name}" if prefix else str(name)).items()
        }
    return {prefix: value}


def params_changes(first: str, second: str) -> list[tuple[str, str, str]]:
    """(key, before, after) of every key that differs between two params.yaml texts; ``-`` where it is not there."""
    before, after = (flat(parse_yaml(text, origin=f"{PARAMS} of a revision")) for text in (first, second))
    keys = [key for key in {**before, **after} if before.get(key, "-") != after.get(key, "-")]
    return [(key, _short(before.get(key, "-")), _short(after.get(key, "-"))) for key in keys]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def compare(first: str, second: str = WORKSPACE, *, root: str | Path = ".") -> tuple[Table, Table]:
    """Two revisions: the params that changed, and the accuracies of every row that changed, by dataset and role.

    Intervals are bootstrap ones over seeds, and for the means over datasets and seeds, of differences paired by
    dataset and seed. A dataset whose images are not the same in both is not compared.

    Returns:
        (params, accuracies).
    """
    root = Path(root)
    changes = params_changes(read_at(first, PARAMS, root=root), read_at(second, PARAMS, root=root))
    rows = [{"key": key, first: before, second: after} for key, before, after in changes]
    params = Table("params", "Params that changed", ["key", first, second], rows)
    texts = [read_at(revision, COUNTS, root=root) for revision in (first, second)]
    unlike, unknown = other_images(*texts)
    before, after = (counts_by_row(text, without=unlike) for text in texts)
    shared = [name for name in before if name in after]
    lines, same = [], 0
    for name in shared:
        if before[name] == after[name]:
            same += 1
        else:
            lines += _differences(name, before[name], after[name])
    columns = ["variant", "row", "dataset", "before", "after", "change", "low", "high"]
    notes = [
        f"Per cent; change in points with its {CONFIDENCE:.0%} bootstrap interval; same datasets, images and seeds.",
        *(f"{name} is not compared: {why}." for name, why in unlike.items()),
        *([f"Only the number of images could be compared of {', '.join(unknown)}."] if unknown else []),
        f"{same} of {len(shared)} rows are the same in both.",
    ]
    return params, Table("compare", f"{first} to {second}", columns, lines, notes)


def other_images(first: str, second: str) -> tuple[dict[str, str], list[str]]:
    """Datasets whose test images differ between two counts.csv, and why; and those known by their number alone."""
    before, after = (
        {
            line["dataset"]: (int(line["n_images"]), line.get("images") or "")
            for line in csv.DictReader(io.StringIO(text))
        }
        for text in (first, second)
    )
    unlike, unknown = {}, []
    for name in (name for name in before if name in after):
        (n, images), (m, others) = before[name], after[name]
        if n != m:
            unlike[name] = f"it has {n:,} images in the first and {m:,} in the second"
        elif images and others and images != others:
            unlike[name] = f"its {n:,} images are not the same ones in both"
        elif not (images and others):
            unknown.append(name)
    return unlike, unknown


def counts_by_row(
    text: str, *, without: Collection[str] = ()
) -> dict[tuple[str, str], dict[tuple[str, str], dict[int, float]]]:
    """counts.csv as (variant, row) -> (dataset, role) -> seed -> accuracy in per cent; no datasets of `without`."""
    found: dict[tuple[str, str], dict[tuple[str, str], dict[int, float]]] = {}
    for line in csv.DictReader(io.StringIO(text)):
        if line["dataset"] in without:
            continue
        datasets = found.setdefault((line["variant"], line["row"]), {})
        accuracy = 100.0 * int(line["n_correct"]) / int(line["n_images"])
        datasets.setdefault((line["dataset"], line["role"]), {})[int(line["seed"])] = accuracy
    return found


def _differences(
    name: tuple[str, str],
    before: Mapping[tuple[str, str], Mapping[int, float]],
    after: Mapping[tuple[str, str], Mapping[int, float]],
) -> list[dict[str, Any]]:
    """One line per dataset that both have, and one per role for the mean; only seeds that both have."""
    shared = [key for key in before if key in after]
    seeds = (
        sorted(set.intersection(*(set(values[key]) for key in shared for values in (before, after)))) if shared else []
    )
    if not seeds:
        return []
    groups = {dataset: [(dataset, role)] for dataset, role in shared}
    groups |= {title: [key for key in shared if key[1] == role] for role, title in MEANS.items()}
    lines = []
    for title, keys in groups.items():
        if keys:
            a, b = (np.array([[values[key][seed] for seed in seeds] for key in keys]) for values in (before, after))
            change, low, high = paired_interval(a, b, samples=SAMPLES, confidence=CONFIDENCE, seed=0)
            line: dict[str, Any] = {"variant": name[0], "row": name[1], "dataset": title}
            lines.append(
                {
                    **line,
                    "before": float(a.mean()),
                    "after": float(b.mean()),
                    "change": change,
                    "low": low,
                    "high": high,
                }
            )
    return lines
