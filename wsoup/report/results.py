"""All results of a run; accuracies, per cent, are computed here and no earlier.

For one seed, a row of a table (`wsoup.report.labels`) has the mean over the datasets of a role (XD, DG). Reports show
the mean of these over seeds and their standard deviation (n - 1).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.rows import CLASS_NAME, Method
from wsoup.paper.settings import Settings
from wsoup.paper.tables import COLUMNS
from wsoup.report.labels import TableRow
from wsoup.report.lines import Line

ROLES = ("source", "xd", "dg")
MEANS = {"xd": "XD mean", "dg": "DG mean"}
PLACES = {"source": "source", **MEANS}
"""Where soups are judged: on the source's test images, and on targets of both roles."""


@dataclass(frozen=True)
class Cells:
    """Lines of one row on every dataset with every seed; some may be missing."""

    lines: Sequence[Line]
    seeds: tuple[int, ...]

    @property
    def texts(self) -> float:
        """Mean number of texts per class, the paper's column m."""
        return float(np.mean([line.texts for line in self.lines]))

    @property
    def stored(self) -> float | None:
        """Mean number of integers that the texts take to store; None where that does not apply."""
        stored = [line.stored for line in self.lines if line.stored is not None]
        if not stored:
            return None
        return float(np.mean(stored))

    def of(self, datasets: Sequence[str], *, metric: str | None = None) -> np.ndarray:
        """Accuracies, per cent, or another metric: (datasets, seeds), NaN where there is none."""
        # A missing line stays visible: a mean over what happens to be there would look like a result.
        known = {}
        for line in self.lines:
            known[line.dataset, line.seed] = line.accuracy if metric is None else line.metrics.get(metric, np.nan)
        values = np.full((len(datasets), len(self.seeds)), np.nan)
        for d, dataset in enumerate(datasets):
            for k, seed in enumerate(self.seeds):
                values[d, k] = known.get((dataset, seed), np.nan)
        return values


@dataclass(frozen=True)
class Results:
    """All results of a run.

    Attributes:
        lines: of the results files.
        table: all rows that tables may have.
        roles: role of each dataset, in the order of params.yaml.
        evaluate: sizes of random draws.
        facts: what the results files say about each dataset.
        encoder: id of the encoder.
        settings: of the run, to compare with the paper's.
        parameters: number of parameters of each finetuned method and each head.
        peak_device_mib: highest memory of each method's training on the device, first seed; None on a CPU.
        members_kl: of each method trained over several texts: for each seed, (iteration, KL between members).
        training: of each method with snapshots: lines of seed, iteration, dataset, n_correct, n_images.
        selected: of each method whose rate was selected: learning_rate, n_correct and n_images of each that was tried.
    """

    lines: Sequence[Line]
    table: Sequence[TableRow]
    roles: Mapping[str, str]
    evaluate: EvaluateParams
    facts: Mapping[str, Mapping[str, Any]]
    encoder: dict[str, object]
    settings: Settings
    parameters: Mapping[str, int] = field(default_factory=dict)
    peak_device_mib: Mapping[str, int | None] = field(default_factory=dict)
    members_kl: Mapping[str, Sequence[Sequence[tuple[int, float]]]] = field(default_factory=dict)
    training: Mapping[str, Sequence[tuple[int, int, str, int, int]]] = field(default_factory=dict)
    selected: Mapping[str, Sequence[Mapping[str, float]]] = field(default_factory=dict)

    @cached_property
    def variants(self) -> list[str]:
        """Pretrained first, then methods and heads by name."""
        return sorted({line.variant for line in self.lines}, key=lambda name: (name != PRETRAINED, name))

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """All seeds, in order."""
        return tuple(sorted({line.seed for line in self.lines}))

    @cached_property
    def columns(self) -> dict[str, list[str]]:
        """Columns of tables of accuracies -> their datasets: every dataset, and after those of a role their mean."""
        columns = {}
        for role in ROLES:
            names = self.datasets(role)
            for name in names:
                columns[name] = [name]
            if names and role in MEANS:
                columns[MEANS[role]] = names
        return columns

    @cached_property
    def metrics(self) -> list[str]:
        """Metrics that somebody has added to the files of results, in their order."""
        names: dict[str, None] = {}
        for line in self.lines:
            names |= dict.fromkeys(line.metrics)
        return list(names)

    @cached_property
    def _groups(self) -> dict[tuple[str, str, str], list[Line]]:
        groups: dict[tuple[str, str, str], list[Line]] = {}
        for line in self.lines:
            groups.setdefault((line.variant, line.method, line.mode), []).append(line)
        return groups

    @cached_property
    def paper_settings(self) -> Settings:
        """The paper's settings."""
        return Settings.of_paper()

    def label(self, row: TableRow) -> str:
        """Label of a row in tables: the paper's where a dataset has the name of one of the paper's."""
        if COLUMNS.keys() & self.roles:
            return row.label
        return row.plain or row.label

    def title(self, variant: str, row: TableRow) -> str:
        """Label of a row of any variant; with the class name alone a variant's name says it all."""
        if variant == PRETRAINED:
            return self.label(row)
        return variant if row.key == CLASS_NAME.name else f"{variant} + {self.label(row)}"

    def datasets(self, role: str | None = None) -> list[str]:
        """Names of the datasets of a role, or of all."""
        return [name for name, its_role in self.roles.items() if role in (None, its_role)]

    def row(self, key: str) -> TableRow | None:
        """A row by its key in metrics.json; ``word_soup@4`` is its first four members. None if no soup has that key."""
        # The paper has tables of soups cut to fewer members.
        name, _, m = key.partition("@")
        row = next((row for row in self.table if row.key == name), None)
        if row is not None and m:
            return replace(row, m=int(m))
        return row

    def rows(self) -> Iterator[tuple[str, TableRow, Cells]]:
        """(variant, row, cells) of every row with results, in the order of tables."""
        for variant in self.variants:
            for row in self.table:
                cells = self.cells(variant, row)
                if cells is not None:
                    yield variant, row, cells

    def cells(self, variant: str, row: TableRow) -> Cells | None:
        """Results of one row at the size that tables show; None where there are none."""
        lines = self._groups.get((variant, row.method.name, row.mode), ())
        lines = [line for line in lines if (line.offsets > 1) == row.offsets]
        if lines:
            lines = _of_size(lines, self._shown_size(variant, row))
        if not lines:
            return None
        return Cells(lines, self.seeds)

    def _shown_size(self, variant: str, row: TableRow) -> int | None:
        """The number of members that tables show of a row; None: all of them."""
        if row.m is not None or not row.method.drawn:
            return row.m
        # More are drawn for the curves than the tables show.
        return self.evaluate.baseline_m if variant == PRETRAINED else self.evaluate.tuned_baseline_m

    def curve(self, method: Method, *, mode: str) -> dict[int, Cells]:
        """The pretrained model by number of members, without offsets; only sizes for which every result is there."""
        by_size: dict[int, list[Line]] = {}
        for line in self._groups.get((PRETRAINED, method.name, mode), ()):
            if line.offsets == 1 and line.m:
                by_size.setdefault(line.m, []).append(line)
        # A size that only some seeds reach would bend the curve: other seeds, not more members.
        complete = len(self.roles) * len(self.seeds)
        return {m: Cells(by_size[m], self.seeds) for m in sorted(by_size) if len(by_size[m]) == complete}


def _of_size(lines: Sequence[Line], size: int | None) -> list[Line]:
    """The lines of rows with so many members; None: of the largest size of each seed on each dataset."""
    if size is not None:
        return [line for line in lines if line.m == size]
    # Soups may end with other numbers of members for other seeds: each is shown whole. Rows with prompts by class have
    # their own number of them on each dataset.
    largest: dict[tuple[int, str], int] = {}
    for line in lines:
        of = (line.seed, line.dataset)
        largest[of] = max(line.m or 0, largest.get(of, 0))
    return [line for line in lines if (line.m or 0) == largest[line.seed, line.dataset]]
