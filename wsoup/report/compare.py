"""What changed between two revisions: params, and accuracies with intervals.

Everything is read from git, so any commit, branch, tag or DVC experiment that contains reports/ will do.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wsoup.base.errors import MissingError
from wsoup.disk.artifacts import PRETRAINED
from wsoup.evaluate.bits import FILE, Right, right_by_row
from wsoup.paper.settings import flat
from wsoup.params.section import parse_yaml
from wsoup.report.results import MEANS
from wsoup.report.tables import Table
from wsoup.runtime.git import git
from wsoup.statistics.noise import compare_counts, compare_images

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
    text = git("show", f"{resolve(revision, root=root)}:{path}", folder=root)
    if text is None:
        raise MissingError(f"{path} is not in revision {revision}; commit reports/ after `dvc repro`")
    return text


def resolve(revision: str, *, root: Path) -> str:
    """The commit of a revision, or of a DVC experiment by its name."""
    commit = git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", folder=root)
    commit = commit or _experiment_refs(root).get(revision)
    if commit is None:
        raise MissingError(f"{revision!r} is no revision and no experiment here; see `git log` and `dvc exp list`")
    return commit.strip()


def experiments(*, root: Path) -> list[str]:
    """Names of the DVC experiments kept in this repository."""
    return sorted(_experiment_refs(root))


def _experiment_refs(root: Path) -> dict[str, str]:
    """Name -> git ref, ``refs/exps/<2 letters>/<38 letters>/<name>``; DVC has other refs beside these."""
    refs = (git("for-each-ref", "--format=%(refname)", "refs/exps", folder=root) or "").split()
    return {ref.rsplit("/", 1)[-1]: ref for ref in refs if ref.count("/") == 4}


def params_changes(first: str, second: str) -> list[tuple[str, str, str]]:
    """(key, before, after) of every key that differs between two params.yaml texts; ``-`` if a text lacks it."""
    before, after = (flat(parse_yaml(text, origin=f"{PARAMS} of a revision")) for text in (first, second))
    pairs = {key: (before.get(key, "-"), after.get(key, "-")) for key in {**before, **after}}
    return [(key, _short(old), _short(new)) for key, (old, new) in pairs.items() if old != new]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


class Dataset(NamedTuple):
    """One dataset of a revision; two are equal if their test images are."""

    name: str
    role: str
    n_images: int
    images: str
    """Digest of the test images; "" in older reports."""


Rows = dict[tuple[str, str], dict[Dataset, dict[int, int]]]
"""(variant, row) -> dataset -> seed -> correct images."""


def counts_by_row(text: str) -> Rows:
    """The counts of every row, from the text of counts.csv."""
    rows: Rows = {}
    for line in csv.DictReader(io.StringIO(text)):
        dataset = Dataset(line["dataset"], line["role"], int(line["n_images"]), line.get("images") or "")
        by_dataset = rows.setdefault((line["variant"], line["row"]), {})
        by_dataset.setdefault(dataset, {})[int(line["seed"])] = int(line["n_correct"])
    return rows


def right_at(revision: str, *, root: Path) -> dict[tuple[str, str], Right]:
    """(variant, row) -> the images that it gets right at a revision; empty if DVC does not have them at hand."""
    path = f"artifacts/results/{PRETRAINED}/{FILE}"
    try:
        import dvc.api
        from pyarrow import parquet

        at = {} if revision == WORKSPACE else {"rev": resolve(revision, root=root)}
        with dvc.api.open(path, repo=str(root), mode="rb", **at) as file:
            rows = right_by_row(parquet.read_table(io.BytesIO(file.read())).to_pylist())
    except Exception:  # not cached, no DVC, another layout: counts are still there
        return {}
    return {(PRETRAINED, m if mode == "centroid" else f"{m}_{mode}"): right for (m, mode), right in rows.items()}


def compare(first: str, second: str = WORKSPACE, *, root: str | Path = ".") -> tuple[Table, Table]:
    """Params that changed between two revisions, and accuracies of every row that changed, by dataset and role.

    Intervals are those of `wsoup.statistics`, datasets held fixed: from images if DVC still has both revisions' right
    ones, else from counts. A dataset whose images differ between the revisions is not compared.

    Returns:
        (params, accuracies).
    """
    root = Path(root)
    changes = params_changes(read_at(first, PARAMS, root=root), read_at(second, PARAMS, root=root))
    rows = [{"key": key, first: before, second: after} for key, before, after in changes]
    before, after = (counts_by_row(read_at(revision, COUNTS, root=root)) for revision in (first, second))
    both = {name: [dataset for dataset in before[name] if dataset in after[name]] for name in before if name in after}
    shared = {name: datasets for name, datasets in both.items() if datasets}
    changed = [name for name, datasets in shared.items() if any(before[name][d] != after[name][d] for d in datasets)]
    images = [right_at(revision, root=root) if changed else {} for revision in (first, second)]
    lines = [
        {"variant": name[0], "row": name[1], **line}
        for name in changed
        for line in _differences(
            before[name], after[name], datasets=shared[name], images=[right.get(name, {}) for right in images]
        )
    ]
    accuracies = Table(
        "compare",
        f"{first} to {second}",
        columns=["variant", "row", "dataset", "before", "after", "change", "low", "high", "from"],
        rows=lines,
        notes=[
            f"Per cent; change in points with its {CONFIDENCE:.0%} interval over images and seeds; same datasets, "
            "images and seeds.",
            "From: what the interval was computed from. Counts do not say which images changed: the interval is then "
            "that of two classifiers that agree only by chance, and the true one is shorter.",
            *_other_images(before, after),
            f"{len(shared) - len(changed)} of {len(shared)} rows are the same in both.",
        ],
    )
    return Table("params", "Params that changed", ["key", first, second], rows), accuracies


def _other_images(before: Rows, after: Rows) -> list[str]:
    """A note on each dataset whose test images differ between the revisions."""
    first, second = ({d.name: d for row in rows.values() for d in row} for rows in (before, after))
    return [
        f"{name} is not compared: it has {d.n_images:,} images in the first and {second[name].n_images:,} in the "
        "second, and they are not the same ones."
        for name, d in first.items()
        if second.get(name, d) != d
    ]


def _differences(
    before: Mapping[Dataset, Mapping[int, int]],
    after: Mapping[Dataset, Mapping[int, int]],
    *,
    datasets: Sequence[Dataset],
    images: Sequence[Right],
) -> Iterator[dict[str, Any]]:
    """One row per dataset, and one per role for the mean, over the seeds that every dataset has in both revisions.

    `images` are those that are right before and after, as far as they are known.
    """
    seeds = sorted(set.intersection(*(set(row[dataset]) for dataset in datasets for row in (before, after))))
    groups = {dataset.name: [dataset] for dataset in datasets}
    groups |= {title: [dataset for dataset in datasets if dataset.role == role] for role, title in MEANS.items()}
    for title, group in groups.items() if seeds else ():
        if group:
            n_images = np.array([dataset.n_images for dataset in group])
            old, new = (np.array([[row[dataset][k] for k in seeds] for dataset in group]) for row in (before, after))
            old_right, new_right = (
                _right_images(row, right, datasets=group, seeds=seeds)
                for row, right in zip((before, after), images, strict=True)
            )
            if old_right and new_right:
                estimate, basis = compare_images(new_right, old_right).fixed, "images"
            else:
                estimate, basis = compare_counts(new, old, n_images=n_images).fixed, "counts"
            means = [float((100.0 * counts / n_images[:, None]).mean()) for counts in (old, new)]
            low, high = estimate.interval(CONFIDENCE)
            line = {"dataset": title, "before": means[0], "after": means[1], "change": estimate.mean, "from": basis}
            yield line | {"low": low, "high": high}


def _right_images(
    row: Mapping[Dataset, Mapping[int, int]], right: Right, *, datasets: Sequence[Dataset], seeds: Sequence[int]
) -> Right | None:
    """Which images a row gets right with some seeds; None if a dataset's are not known or do not fit its counts."""
    chosen: Right = {}
    for dataset in datasets:
        counts = dict(sorted(row[dataset].items()))
        known = right.get(dataset.name)
        if known is None or known.sum(axis=1).tolist() != list(counts.values()):
            return None
        chosen[dataset.name] = known[[list(counts).index(seed) for seed in seeds]]
    return chosen
