"""What the paper's soups gain in its authors' own counts (data/paper/authors_evaluation_log.csv), with intervals.

python -m benchmarks.authors_counts

ViT-B-16 with OpenAI's weights, three seeds, 15 datasets; `paper:word` and `paper:descriptor` are the soups of seed 1.
The log has counts alone, so an interval resamples datasets (and seeds): what other datasets of this kind would give.
docs/notes/authors_counts.md is what this prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from wsoup.datasets.paper import PAPER
from wsoup.paper.logs import read_counts
from wsoup.statistics.noise import over_datasets

FIRST = (1,)
EVERY = (1, 2, 3)
ROWS = {
    "class name": ("ZS", EVERY),
    "80 templates": ("ensemble", EVERY),
    "`paper:word`": ("word-soup", FIRST),
    "word soup, three seeds": ("word-soup", EVERY),
    "`paper:descriptor`": ("descriptor-soup", FIRST),
    "descriptor soup, three seeds": ("descriptor-soup", EVERY),
}
"""Rows: a method of the log, and its seeds."""
COMPARED = (
    ("80 templates", "class name"),
    ("`paper:word`", "class name"),
    ("`paper:word`", "80 templates"),
    ("word soup, three seeds", "class name"),
    ("word soup, three seeds", "80 templates"),
    ("`paper:descriptor`", "class name"),
    ("`paper:descriptor`", "80 templates"),
    ("descriptor soup, three seeds", "class name"),
    ("descriptor soup, three seeds", "80 templates"),
    ("word soup, three seeds", "descriptor soup, three seeds"),
)
PLACES = {"source": "ImageNet", "xd": "XD", "dg": "DG"}


def main() -> None:
    """Print accuracies, gains, and gains without the dataset that carries most."""
    print(page())


def page() -> str:
    """All that is printed."""
    return "\n".join([*accuracies(), "", *gains(), "", *by_dataset()])


def shares(row: str, *, role: str) -> dict[str, np.ndarray]:
    """Dataset of a role -> per cent of its images that are right with each seed (K,)."""
    method, seeds = ROWS[row]
    by_dataset: dict[str, list[float]] = {}
    for line in read_counts():
        if line.method == method and line.seed in seeds and PAPER[line.dataset].role == role:
            by_dataset.setdefault(line.dataset, []).append(100 * line.n_correct / line.n_images)
    return {name: np.array(of_seeds) for name, of_seeds in by_dataset.items()}


def accuracies() -> Iterator[str]:
    """Per cent, means over datasets and seeds."""
    yield f"| per cent | {' | '.join(PLACES.values())} |"
    yield "|---|---|---|---|"
    for row in ROWS:
        figures = []
        for role in PLACES:
            means = [of_seeds.mean() for of_seeds in shares(row, role=role).values()]
            figures.append(f"{np.mean(means):.2f}")
        yield f"| {row} | {' | '.join(figures)} |"


def gains() -> Iterator[str]:
    """Each comparison on each place: points, interval with datasets resampled, and on how many it is ahead."""
    yield f"| points | {' | '.join(PLACES.values())} |"
    yield "|---|---|---|---|"
    for row, other in COMPARED:
        cells = [_gain(difference(row, other, role=role)) for role in PLACES]
        yield f"| {row} over {other} | {' | '.join(cells)} |"


def difference(row: str, other: str, *, role: str) -> dict[str, np.ndarray]:
    """Dataset of a role -> one row minus another with each seed of the first: (K,) points."""
    # What has no seed is the same with each.
    seeds = len(ROWS[row][1])
    second = shares(other, role=role)
    return {name: points - second[name][:seeds] for name, points in shares(row, role=role).items()}


def _gain(by_dataset: Mapping[str, np.ndarray]) -> str:
    points = np.stack(list(by_dataset.values()))  # (D, K)
    mean = f"{points.mean():+.2f}"
    estimate = over_datasets(points)
    if estimate is None:
        return mean
    low, high = estimate.interval(0.95)
    n_ahead = int((points.mean(axis=1) > 0).sum())
    return f"{mean} [{low:+.2f}, {high:+.2f}], ahead on {n_ahead} of {len(points)}"


def by_dataset() -> Iterator[str]:
    """Of each comparison on XD the dataset that gives most, and the gain without it; then where it is behind."""
    for row, other in COMPARED:
        of_xd = difference(row, other, role="xd")
        most = max(of_xd, key=lambda name: float(of_xd[name].mean()))
        given = f"{_title(most)} gives {of_xd[most].mean() / len(of_xd):+.2f}"
        without = _gain({name: points for name, points in of_xd.items() if name != most})
        behind = []
        for name, points in (of_xd | difference(row, other, role="dg")).items():
            if points.mean() < 0:
                behind.append(f"{_title(name)} {points.mean():+.2f}")
        behind_on = f"Behind on {', '.join(behind)}." if behind else "Behind on none of XD and DG."
        yield f"- {row} over {other}: of XD {given}, without it {without}. {behind_on}"


def _title(dataset: str) -> str:
    return PAPER[dataset].title


if __name__ == "__main__":
    main()
