"""Counts to accuracies: which lines of the results make a row of a table, means over datasets and seeds, what is noise.

Accuracies are per cent. A row's value for a seed is the mean over datasets of a role (XD, DG); what is shown is the
mean over seeds and the standard deviation over seeds (n - 1). Counts stay counts until here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wsoup import store
from wsoup.artifacts import PRETRAINED
from wsoup.errors import MissingError
from wsoup.params.datasets import DatasetParams
from wsoup.params.evaluation import EvaluateParams
from wsoup.report.halves import harmonic, pair_of_halves


@dataclass(frozen=True)
class RowSpec:
    """One row of a table: which lines of the results it is made of.

    Attributes:
        key: its name in metrics.json.
        label: its name in the paper's tables, where it is there.
        method, mode: as in the results.
        offsets: whether it is the row with copies at other token offsets.
        m: members, where it is not the size that tables show.
    """

    key: str
    label: str
    method: str
    mode: str = "centroid"
    offsets: bool = False
    m: int | None = None


ROWS = (
    RowSpec("class_name", "CLIP ZS", "class_name"),
    RowSpec("ensemble", "Ensemble", "ensemble"),
    RowSpec("gpt_centroids", "GPT centroids", "gpt"),
    RowSpec("gpt_score_mean", "GPT score mean", "gpt", "score_mean"),
    RowSpec("random_descriptors", "Random descriptors", "random_descriptors"),
    RowSpec("random_descriptors_offsets", "Random descriptors + offset trick", "random_descriptors", offsets=True),
    RowSpec("waffle", "Waffle CLIP", "waffle"),
    RowSpec("waffle_offsets", "Waffle CLIP + offset trick", "waffle", offsets=True),
    RowSpec("random_chains", "Random word chains", "random_chains"),
    RowSpec("descriptor_soup", "Descriptor soup", "descriptor_soup"),
    RowSpec("descriptor_soup_score_mean", "Descriptor soup score mean", "descriptor_soup", "score_mean"),
    RowSpec("descriptor_soup_offsets", "Descriptor soup + offset trick", "descriptor_soup", offsets=True),
    RowSpec("word_soup", "Word soup", "word_soup"),
    RowSpec("word_soup_score_mean", "Word soup score mean", "word_soup", "score_mean"),
    RowSpec("word_soup_offsets", "Word soup + offset trick", "word_soup", offsets=True),
    RowSpec("upper_bound", "Descriptor soup upper bound", "upper_bound"),
)
"""The paper's rows in its order (zero_shot.csv), and rows of ours where they belong."""
BY_KEY = {row.key: row for row in ROWS}
MEASURED = ("n_correct", "n_images", "alignment", "uniformity")
DRAWN = ("random_descriptors", "waffle")
"""Methods whose size in the tables is a parameter; all others are shown at their full size."""


@dataclass(frozen=True)
class Cells:
    """One row on every dataset and seed: arrays (datasets, seeds), NaN where there is no result.

    Attributes:
        datasets, seeds: the axes' names.
        n_correct, n_images: counts.
        alignment, uniformity: mean cosines.
        texts: mean number of texts of a class, the paper's column m.
        stored: mean number of integers that it takes to store; None where that says nothing.
    """

    datasets: tuple[str, ...]
    seeds: tuple[int, ...]
    n_correct: np.ndarray
    n_images: np.ndarray
    alignment: np.ndarray
    uniformity: np.ndarray
    texts: float
    stored: float | None

    @property
    def accuracy(self) -> np.ndarray:
        """Per cent: (datasets, seeds)."""
        return 100.0 * self.n_correct / self.n_images

    def of(self, names: Iterable[str], *, what: str = "accuracy") -> np.ndarray:
        """One of the arrays for the datasets `names` only: (n, seeds)."""
        values: np.ndarray = getattr(self, what)
        return values[[self.datasets.index(name) for name in names]]


class Results:
    """All results of a run.

    Args:
        lines: rows of the results files as dictionaries.
        roles: role of each dataset, in the order of params.yaml.
        evaluate: the sizes of drawn rows.
        facts: what results say of each dataset.
        encoder: id of the encoder.
        parameters: numbers that each finetuned method stores.
        divergence: of each method trained over several texts: iteration -> KL between members, one a seed.
        halves: the base and the new half of one dataset, where the run is such a run.
        halved: datasets of which the run has half the classes only.
    """

    def __init__(
        self,
        lines: Sequence[dict[str, Any]],
        *,
        roles: Mapping[str, str],
        evaluate: EvaluateParams,
        facts: dict[str, Any],
        encoder: dict[str, Any],
        parameters: Mapping[str, int],
        divergence: Mapping[str, Mapping[int, Sequence[float]]],
        halves: tuple[str, str] | None,
        halved: Collection[str],
    ) -> None:
        self.parameters, self.divergence = parameters, divergence
        self.halves, self.halved = halves, halved
        self.roles, self.evaluate, self.facts, self.encoder = roles, evaluate, facts, encoder
        self.variants = sorted({line["variant"] for line in lines}, key=lambda name: (name != PRETRAINED, name))
        self.seeds = tuple(sorted({line["seed"] for line in lines}))
        self._groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for line in lines:
            self._groups.setdefault((line["variant"], line["method"], line["mode"]), []).append(line)
        self.lines = lines

    def datasets(self, role: str | None = None) -> list[str]:
        """Names of the datasets of a role, or of all."""
        return [name for name, found in self.roles.items() if role in (None, found)]

    def rows(self) -> Iterator[tuple[str, RowSpec, Cells]]:
        """(variant, row, cells) of every row that there are results of, in the order of tables."""
        for variant in self.variants:
            for row in ROWS:
                cells = self.cells(variant, row)
                if cells is not None:
                    yield variant, row, cells

    def cells(self, variant: str, row: RowSpec) -> Cells | None:
        """The lines of one row at the size that tables show; None where there are none."""
        lines = [
            line
            for line in self._groups.get((variant, row.method, row.mode), ())
            if (line["offsets"] > 1) == row.offsets
        ]
        if row.m is not None:
            lines = [line for line in lines if line["m"] == row.m]
        elif row.method in DRAWN:
            size = self.evaluate.baseline_m if variant == PRETRAINED else self.evaluate.tuned_baseline_m
            lines = [line for line in lines if line["m"] == size]
        else:
            full: dict[int, int] = {}
            for line in lines:
                full[line["seed"]] = max(full.get(line["seed"], 0), line["m"] or 0)
            lines = [line for line in lines if (line["m"] or 0) == full[line["seed"]]]
        return self._arrange(lines)

    def harmonic(self, cells: Cells) -> np.ndarray:
        """Harmonic mean of base and new of every seed: (1, seeds), or (0, seeds) where the run has no halves."""
        if self.halves is None:
            return np.empty((0, len(self.seeds)))
        base, new = (cells.of([name]) for name in self.halves)
        return harmonic(base, new)

    def curve(self, variant: str, *, method: str, mode: str) -> dict[int, Cells]:
        """Cells by soup size, without the offset trick; sizes that every seed has."""
        lines = [line for line in self._groups.get((variant, method, mode), ()) if line["offsets"] == 1 and line["m"]]
        found = {}
        for m in sorted({line["m"] for line in lines}):
            cells = self._arrange([line for line in lines if line["m"] == m])
            if cells is not None and not np.isnan(cells.accuracy).any():
                found[m] = cells
        return found

    def _arrange(self, lines: Sequence[dict[str, Any]]) -> Cells | None:
        if not lines:
            return None
        datasets = tuple(self.roles)
        arrays = {name: np.full((len(datasets), len(self.seeds)), np.nan) for name in MEASURED}
        for line in lines:
            place = datasets.index(line["dataset"]), self.seeds.index(line["seed"])
            for name, array in arrays.items():
                array[place] = line[name]
        stored = [line["stored"] for line in lines if line["stored"] is not None]
        return Cells(
            datasets,
            self.seeds,
            **arrays,
            texts=float(np.mean([line["texts"] for line in lines])),
            stored=float(np.mean(stored)) if stored else None,
        )


def row_of(key: str) -> RowSpec:
    """A row by its key in metrics.json; ``word_soup@4`` is cut to its first four members."""
    name, _, m = key.partition("@")
    return replace(BY_KEY[name], m=int(m)) if m else BY_KEY[name]


def load_results(
    folder: Path, *, datasets: Mapping[str, DatasetParams], methods: Collection[str], evaluate: EvaluateParams
) -> Results:
    """Read ``pretrained/results.parquet`` and the ``<method>.parquet`` of each method that there is in `folder`."""
    first = folder / PRETRAINED / "results.parquet"
    if not first.exists():
        raise MissingError(f"{first} does not exist; it is made by stage 'evaluate': run `dvc repro evaluate`")
    attributes = store.table_attributes(first)
    lines = store.read_table(first).to_pylist()
    parameters: dict[str, int] = {}
    divergence: dict[str, dict[int, list[float]]] = {}
    for method in methods:
        path = folder / f"{method}.parquet"
        if path.exists():
            lines += store.read_table(path).to_pylist()
            about = store.table_attributes(path)
            parameters[method] = about["parameters"]
            for log in about["members_kl"]:
                for iteration, value in log:
                    divergence.setdefault(method, {}).setdefault(iteration, []).append(value)
    roles = {name: dataset.role for name, dataset in datasets.items()}
    return Results(
        lines,
        roles=roles,
        evaluate=evaluate,
        facts=attributes["datasets"],
        encoder=attributes["encoder"],
        parameters=parameters,
        divergence=divergence,
        halves=pair_of_halves(datasets),
        halved=[name for name, dataset in datasets.items() if dataset.classes != "all"],
    )


def mean_and_std(values: np.ndarray) -> tuple[float, float]:
    """Mean over datasets, then mean and standard deviation over seeds: (datasets, seeds) -> two numbers.

    The deviation is 0 for a single seed. NaN where there is no dataset or a result is missing.
    """
    if not len(values):
        return float("nan"), float("nan")
    by_seed = values.mean(axis=0)
    return float(by_seed.mean()), float(by_seed.std(ddof=1)) if len(by_seed) > 1 else 0.0


def paired_interval(
    first: np.ndarray, second: np.ndarray, *, samples: int, confidence: float, seed: int
) -> tuple[float, float, float]:
    """Mean of second - first and its bootstrap interval, where both are (datasets, seeds) on the same images.

    Datasets and seeds are drawn anew, each with replacement and independently of the other, because both are a sample
    of what might have been; images are not, because accuracies of a dataset share them.

    Returns:
        (mean difference, lower end, upper end), in points.
    """
    difference = second - first
    generator = np.random.default_rng([seed, difference.shape[0], difference.shape[1]])
    d = generator.integers(difference.shape[0], size=(samples, difference.shape[0]))
    k = generator.integers(difference.shape[1], size=(samples, difference.shape[1]))
    means = difference[d[:, :, None], k[:, None, :]].mean(axis=(1, 2))
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(means, [tail, 100.0 - tail])
    return float(difference.mean()), float(low), float(high)
