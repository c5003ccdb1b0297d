"""Counts to accuracies: which lines of the results make a row of a table (`wsoup.evaluate.rows`).

Accuracies are per cent. Counts stay counts until here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import PRETRAINED
from wsoup.core.params.datasets import DatasetParams
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.rows import Method, TableRow, table
from wsoup.report.means import ROLES, harmonic, pair_of_halves
from wsoup.report.paper import COLUMNS
from wsoup.report.reading import attributes_of, result_lines
from wsoup.report.settings import Settings

MEASURED = ("n_correct", "n_images", "alignment", "uniformity")


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
        table: all rows that tables may have.
        roles: role of each dataset, in the order of params.yaml.
        evaluate: the sizes of drawn rows.
        facts: what results say of each dataset.
        encoder: id of the encoder.
        parameters: numbers that each finetuned method and each head stores.
        divergence: of each method trained over several texts: iteration -> KL between members, one a seed.
        training: of each method that kept snapshots: lines of seed, iteration, dataset, n_correct, n_images.
        heads: which of the variants are heads, that have one way of use.
        halves: the base and the new half of one dataset, where the run is such a run.
        halved: datasets of which the run has half the classes only.
        settings: of the run, to be held against the paper's.
    """

    def __init__(
        self,
        lines: Sequence[dict[str, Any]],
        *,
        table: Sequence[TableRow],
        roles: Mapping[str, str],
        evaluate: EvaluateParams,
        facts: dict[str, Any],
        encoder: dict[str, Any],
        parameters: Mapping[str, int],
        divergence: Mapping[str, Mapping[int, Sequence[float]]],
        training: Mapping[str, Sequence[Sequence[Any]]] = MappingProxyType({}),
        heads: Collection[str] = (),
        halves: tuple[str, str] | None,
        halved: Collection[str],
        settings: Settings,
    ) -> None:
        self.settings = settings
        self.table = tuple(table)
        self.parameters, self.divergence, self.training = parameters, divergence, training
        self.heads, self.halves, self.halved = heads, halves, halved
        self.roles, self.evaluate, self.facts, self.encoder = roles, evaluate, facts, encoder
        self.variants = sorted({line["variant"] for line in lines}, key=lambda name: (name != PRETRAINED, name))
        self.seeds = tuple(sorted({line["seed"] for line in lines}))
        self._groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for line in lines:
            self._groups.setdefault((line["variant"], line["method"], line["mode"]), []).append(line)

    @cached_property
    def theirs(self) -> Settings:
        """What the paper fixes."""
        return Settings.of_paper()

    @cached_property
    def papers(self) -> bool:
        """Whether any dataset goes by the name of one of the paper's: then rows are called as in its tables."""
        return any(name in COLUMNS for name in self.roles)

    @cached_property
    def class_name(self) -> Cells | None:
        """The class name alone with the pretrained model."""
        return self.cells(PRETRAINED, self.table[0])

    def label(self, row: TableRow) -> str:
        """What tables call a row."""
        return row.label if self.papers else row.plain or row.label

    def datasets(self, role: str | None = None) -> list[str]:
        """Names of the datasets of a role, or of all."""
        return [name for name, its_role in self.roles.items() if role in (None, its_role)]

    def by_role(self, cells: Cells, *, what: str = "accuracy") -> dict[str, np.ndarray]:
        """One of the arrays of a row for the datasets of each role: (n, seeds) each."""
        return {role: cells.of(self.datasets(role), what=what) for role in ROLES}

    def row(self, key: str) -> TableRow | None:
        """A row by its key in metrics.json, ``word_soup@4`` cut to its first four members; None: of no soup here."""
        name, _, m = key.partition("@")
        row = next((row for row in self.table if row.key == name), None)
        return replace(row, m=int(m)) if row is not None and m else row

    def rows(self) -> Iterator[tuple[str, TableRow, Cells]]:
        """(variant, row, cells) of every row that there are results of, in the order of tables."""
        for variant, row in product(self.variants, self.table):
            cells = self.cells(variant, row)
            if cells is not None:
                yield variant, row, cells

    def cells(self, variant: str, row: TableRow) -> Cells | None:
        """The lines of one row at the size that tables show; None where there are none."""
        lines = [
            line
            for line in self._groups.get((variant, row.method.name, row.mode), ())
            if (line["offsets"] > 1) == row.offsets
        ]
        size, whole = row.m, dict[int, int]()
        if size is None and row.method.drawn:
            size = self.evaluate.baseline_m if variant == PRETRAINED else self.evaluate.tuned_baseline_m
        for line in lines:
            whole[line["seed"]] = max(whole.get(line["seed"], 0), line["m"] or 0) if size is None else size
        return self._arrange([line for line in lines if (line["m"] or 0) == whole[line["seed"]]])

    def harmonic(self, cells: Cells) -> np.ndarray:
        """Harmonic mean of base and new of every seed: (1, seeds), or (0, seeds) where the run has no halves."""
        if self.halves is None:
            return np.empty((0, len(self.seeds)))
        return harmonic(*(cells.of([name]) for name in self.halves))

    def curve(self, variant: str, *, method: Method, mode: str) -> dict[int, Cells]:
        """Cells by number of members, without the offset trick; sizes that every seed has."""
        lines = [
            line for line in self._groups.get((variant, method.name, mode), ()) if line["offsets"] == 1 and line["m"]
        ]
        sizes = sorted({line["m"] for line in lines})
        by_size = {m: self._arrange([line for line in lines if line["m"] == m]) for m in sizes}
        return {m: cells for m, cells in by_size.items() if cells and not np.isnan(cells.accuracy).any()}

    def _arrange(self, lines: Sequence[dict[str, Any]]) -> Cells | None:
        if not lines:
            return None
        datasets = tuple(self.roles)
        arrays = {name: np.full((len(datasets), len(self.seeds)), np.nan) for name in MEASURED}
        for line, (name, array) in product(lines, arrays.items()):
            array[datasets.index(line["dataset"]), self.seeds.index(line["seed"])] = line[name]
        stored = [line["stored"] for line in lines if line["stored"] is not None]
        return Cells(
            datasets,
            self.seeds,
            **arrays,
            texts=float(np.mean([line["texts"] for line in lines])),
            stored=float(np.mean(stored)) if stored else None,
        )


def load_results(
    folder: Path,
    *,
    datasets: Mapping[str, DatasetParams],
    soups: Sequence[str],
    methods: Collection[str],
    heads: Collection[str],
    evaluate: EvaluateParams,
    sections: Mapping[str, Any],
) -> Results:
    """Read ``pretrained/results.parquet``, ``<method>.parquet`` and ``heads/<head>.parquet``, as far as they are there.

    Args:
        folder: of results.
        datasets, soups, methods, heads, evaluate: as in params.yaml; of soups, methods and heads the names.
        sections: of params.yaml as JSON values, whose settings are held against the paper's.
    """
    first = store.require(folder / PRETRAINED / "results.parquet", made_by="evaluate")
    attributes = attributes_of(first, "datasets", "encoder")
    lines = result_lines(first, variant=PRETRAINED, datasets=datasets)
    parameters: dict[str, int] = {}
    divergence: dict[str, dict[int, list[float]]] = {}
    training: dict[str, list[list[Any]]] = {}
    for method in (*methods, *heads):
        path = (folder / "heads" if method in heads else folder) / f"{method}.parquet"
        if path.exists():
            lines += result_lines(path, variant=method, datasets=datasets)
            about = attributes_of(path, "parameters", "members_kl")
            parameters[method] = about["parameters"]
            if about.get("training"):
                training[method] = about["training"]
            for iteration, value in chain.from_iterable(about["members_kl"]):
                divergence.setdefault(method, {}).setdefault(iteration, []).append(value)
    return Results(
        lines,
        table=table(soups),
        roles={name: dataset.role for name, dataset in datasets.items()},
        evaluate=evaluate,
        facts=attributes["datasets"],
        encoder=attributes["encoder"],
        parameters=parameters,
        divergence=divergence,
        training=training,
        heads=heads,
        halves=pair_of_halves(datasets),
        halved=[name for name, dataset in datasets.items() if dataset.classes != "all"],
        settings=Settings.of_run(sections, pools=attributes.get("pools", {})),
    )
