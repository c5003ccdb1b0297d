"""Results of a run as arrays of counts; accuracies, per cent, are computed here and nowhere earlier.

For one seed, a row of a table (`wsoup.evaluate.rows`) has the mean over the datasets of a role (XD, DG). Reports show
the mean of these over seeds and their standard deviation (n - 1).
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import Any, TypeGuard

import numpy as np

from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.rows import Method
from wsoup.paper.settings import Settings
from wsoup.paper.tables import COLUMNS
from wsoup.report.labels import TableRow

MEASURED = ("n_correct", "n_images", "alignment", "uniformity")
ROLES = ("source", "xd", "dg")
MEANS = {"xd": "XD mean", "dg": "DG mean"}
PLACES = {"source": "source", **MEANS}
"""Where soups are judged: on the source's test images, and on targets of both roles."""


@dataclass(frozen=True)
class Cells:
    """One row on every dataset and seed: arrays (datasets, seeds), NaN where there is no result.

    Attributes:
        datasets, seeds: the axes' names.
        n_correct, n_images: counts.
        alignment, uniformity: mean cosines.
        texts: mean number of texts per class, the paper's column m.
        stored: mean number of integers that the texts take to store; None where that does not apply.
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
        """One of the arrays, only for the datasets `names`: (n, seeds)."""
        values: np.ndarray = getattr(self, what)
        return values[[self.datasets.index(name) for name in names]]


class Results:
    """All results of a run.

    Args:
        lines: lines of the results files.
        table: all rows that tables may have.
        roles: role of each dataset, in the order of params.yaml.
        evaluate: sizes of random draws.
        facts: what the results files say about each dataset.
        encoder: id of the encoder.
        parameters: number of parameters of each finetuned method and each head.
        divergence: of each method trained over several texts: iteration -> KL between members, one per seed.
        training: of each method with snapshots: lines of seed, iteration, dataset, n_correct, n_images.
        heads: which variants are heads, which are evaluated in a single row.
        settings: of the run, to compare with the paper's.
    """

    def __init__(
        self,
        lines: Sequence[dict[str, Any]],
        *,
        table: Sequence[TableRow],
        roles: Mapping[str, str],
        evaluate: EvaluateParams,
        facts: dict[str, Any],
        encoder: dict[str, object],
        parameters: Mapping[str, int],
        divergence: Mapping[str, Mapping[int, Sequence[float]]],
        training: Mapping[str, Sequence[Sequence[Any]]] = MappingProxyType({}),
        heads: Collection[str] = (),
        settings: Settings,
    ) -> None:
        self.settings = settings
        self.table = tuple(table)
        self.parameters, self.divergence, self.training = parameters, divergence, training
        self.heads = heads
        self.roles, self.evaluate, self.facts, self.encoder = roles, evaluate, facts, encoder
        self.variants = sorted({line["variant"] for line in lines}, key=lambda name: (name != PRETRAINED, name))
        self.seeds = tuple(sorted({line["seed"] for line in lines}))
        self._groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for line in lines:
            self._groups.setdefault((line["variant"], line["method"], line["mode"]), []).append(line)

    @cached_property
    def paper_settings(self) -> Settings:
        """The paper's settings."""
        return Settings.of_paper()

    @cached_property
    def has_paper_datasets(self) -> bool:
        """Whether a dataset has the name of one of the paper's: then rows are labelled as in the paper."""
        return any(name in COLUMNS for name in self.roles)

    @cached_property
    def class_name(self) -> Cells | None:
        """The class name alone with the pretrained model."""
        return self.cells(PRETRAINED, self.table[0])

    def label(self, row: TableRow) -> str:
        """Label of a row in tables."""
        return row.label if self.has_paper_datasets else row.plain or row.label

    def datasets(self, role: str | None = None) -> list[str]:
        """Names of the datasets of a role, or of all."""
        return [name for name, its_role in self.roles.items() if role in (None, its_role)]

    def by_role(self, cells: Cells, *, what: str = "accuracy") -> dict[str, np.ndarray]:
        """One of the arrays of a row for the datasets of each role: (n, seeds) each."""
        return {role: cells.of(self.datasets(role), what=what) for role in ROLES}

    def row(self, key: str) -> TableRow | None:
        """A row by its key in metrics.json; ``word_soup@4`` is its first four members. None if no soup has that key."""
        name, _, m = key.partition("@")
        row = next((row for row in self.table if row.key == name), None)
        return replace(row, m=int(m)) if row is not None and m else row

    def rows(self) -> Iterator[tuple[str, TableRow, Cells]]:
        """(variant, row, cells) of every row with results, in the order of tables."""
        for variant, row in product(self.variants, self.table):
            cells = self.cells(variant, row)
            if cells is not None:
                yield variant, row, cells

    def cells(self, variant: str, row: TableRow) -> Cells | None:
        """Results of one row at the size that tables show; None where there are none."""
        lines = [
            line
            for line in self._groups.get((variant, row.method.name, row.mode), ())
            if (line["offsets"] > 1) == row.offsets
        ]
        size = row.m
        if size is None and row.method.drawn:
            size = self.evaluate.baseline_m if variant == PRETRAINED else self.evaluate.tuned_baseline_m
        largest: dict[int, int] = {}
        for line in lines:
            largest[line["seed"]] = max(largest.get(line["seed"], 0), line["m"] or 0)
        return self._arrange(
            [line for line in lines if (line["m"] or 0) == (largest[line["seed"]] if size is None else size)]
        )

    def curve(self, variant: str, *, method: Method, mode: str) -> dict[int, Cells]:
        """Cells by number of members, without the offset trick; only sizes for which every result is there."""
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


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number other than NaN; booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def mean_and_std(values: np.ndarray) -> tuple[float, float]:
    """Mean over datasets, then mean and standard deviation over seeds: (datasets, seeds) -> two numbers.

    The deviation is 0 for a single seed. Both are NaN where there is no dataset or a result is missing.
    """
    if not len(values):
        return float("nan"), float("nan")
    by_seed = values.mean(axis=0)
    return float(by_seed.mean()), float(by_seed.std(ddof=1)) if len(by_seed) > 1 else 0.0
