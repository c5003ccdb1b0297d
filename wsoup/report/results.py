"""Results of a run as arrays of counts; accuracies, per cent, are computed here and nowhere earlier.

For one seed, a row of a table (`wsoup.report.labels`) has the mean over the datasets of a role (XD, DG). Reports show
the mean of these over seeds and their standard deviation (n - 1). A file of results that is damaged, swapped or stale
raises an error with its name.
"""

import math
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import pydantic

from wsoup.base.errors import MismatchError, WsoupError, one_line
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.rows import Method
from wsoup.paper.settings import Settings
from wsoup.paper.tables import COLUMNS
from wsoup.report.labels import TableRow, table

if TYPE_CHECKING:
    from wsoup.report.run import RunParams

MEASURED = ("n_correct", "n_images", "alignment", "uniformity")
ROLES = ("source", "xd", "dg")
MEANS = {"xd": "XD mean", "dg": "DG mean"}
PLACES = {"source": "source", **MEANS}
"""Where soups are judged: on the source's test images, and on targets of both roles."""


class Line(pydantic.BaseModel):
    """One line of a file of results: one classifier with one seed on one dataset.

    Attributes:
        method, mode: the row's texts, and centroid or score_mean.
        variant: pretrained, a finetuned method or a head.
        m: number of members; None if it differs by class.
        offsets: number of token offsets of each member.
        texts: mean number of texts per class, the paper's column m.
        stored: integers that the texts take to store; None where that does not apply.
        seed, dataset: of the counts.
        n_correct, n_images: counts.
        alignment, uniformity: mean cosines.
    """

    model_config = pydantic.ConfigDict(frozen=True, strict=True)

    method: str
    variant: str
    mode: str
    m: int | None
    offsets: int
    texts: float
    stored: float | None
    seed: int
    dataset: str
    n_correct: int
    n_images: int
    alignment: float
    uniformity: float

    @property
    def key(self) -> tuple[str | int | None, ...]:
        """What no two lines of a file share."""
        return self.method, self.mode, self.m, self.offsets, self.seed, self.dataset


LINES = pydantic.TypeAdapter(list[Line])


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
        divergence: of each method trained over several texts: iteration -> KL between members, one per seed.
        training: of each method with snapshots: lines of seed, iteration, dataset, n_correct, n_images.
    """

    lines: Sequence[Line]
    table: Sequence[TableRow]
    roles: Mapping[str, str]
    evaluate: EvaluateParams
    facts: Mapping[str, Mapping[str, Any]]
    encoder: dict[str, object]
    settings: Settings
    parameters: Mapping[str, int] = field(default_factory=dict)
    divergence: Mapping[str, Mapping[int, Sequence[float]]] = field(default_factory=dict)
    training: Mapping[str, Sequence[tuple[int, int, str, int, int]]] = field(default_factory=dict)

    @cached_property
    def variants(self) -> list[str]:
        """Pretrained first, then methods and heads by name."""
        return sorted({line.variant for line in self.lines}, key=lambda name: (name != PRETRAINED, name))

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """All seeds, in order."""
        return tuple(sorted({line.seed for line in self.lines}))

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
        lines = self._groups.get((variant, row.method.name, row.mode), ())
        lines = [line for line in lines if (line.offsets > 1) == row.offsets]
        size = row.m
        if size is None and row.method.drawn:
            size = self.evaluate.baseline_m if variant == PRETRAINED else self.evaluate.tuned_baseline_m
        largest: dict[int, int] = {}
        for line in lines:
            largest[line.seed] = max(largest.get(line.seed, 0), line.m or 0)
        return self._arrange([line for line in lines if (line.m or 0) == (size or largest[line.seed])])

    def curve(self, variant: str, *, method: Method, mode: str) -> dict[int, Cells]:
        """Cells by number of members, without the offset trick; only sizes for which every result is there."""
        by_size: dict[int, list[Line]] = {}
        for line in self._groups.get((variant, method.name, mode), ()):
            if line.offsets == 1 and line.m:
                by_size.setdefault(line.m, []).append(line)
        arranged = {m: self._arrange(by_size[m]) for m in sorted(by_size)}
        return {m: cells for m, cells in arranged.items() if cells and not np.isnan(cells.accuracy).any()}

    def _arrange(self, lines: Sequence[Line]) -> Cells | None:
        if not lines:
            return None
        datasets = tuple(self.roles)
        arrays = {name: np.full((len(datasets), len(self.seeds)), np.nan) for name in MEASURED}
        for line, (name, array) in product(lines, arrays.items()):
            array[datasets.index(line.dataset), self.seeds.index(line.seed)] = getattr(line, name)
        stored = [line.stored for line in lines if line.stored is not None]
        return Cells(
            datasets,
            self.seeds,
            **arrays,
            texts=float(np.mean([line.texts for line in lines])),
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


# ------------------------------------------------------------------------------------------------------------- files


def load_results(folder: Path, *, params: "RunParams") -> Results:
    """Read ``pretrained/results.parquet`` and, where they exist, ``<method>.parquet`` and ``heads/<head>.parquet``.

    Raises:
        MissingError, MismatchError: no results of the pretrained model; see `read_lines`.
    """
    pretrained = store.require(folder / PRETRAINED / "results.parquet", made_by="evaluate")
    attributes = attributes_of(pretrained, "datasets", "encoder")
    lines = read_lines(pretrained, variant=PRETRAINED, datasets=params.datasets)
    parameters, training = {}, {}
    divergence: dict[str, dict[int, list[float]]] = {}
    files = {name: folder / f"{name}.parquet" for name in params.finetune.methods}
    files |= {name: folder / "heads" / f"{name}.parquet" for name in params.heads}
    for variant, path in files.items():
        if path.exists():
            lines += read_lines(path, variant=variant, datasets=params.datasets)
            about = attributes_of(path, "parameters", "members_kl")
            parameters[variant] = about["parameters"]
            if about.get("training"):
                training[variant] = about["training"]
            for iteration, value in chain.from_iterable(about["members_kl"]):
                divergence.setdefault(variant, {}).setdefault(iteration, []).append(value)
    return Results(
        lines,
        table(list(params.soups)),
        roles={name: dataset.role for name, dataset in params.datasets.items()},
        evaluate=params.evaluate,
        facts=attributes["datasets"],
        encoder=attributes["encoder"],
        settings=Settings.of_run(params.model_dump(mode="json", by_alias=True), pools=attributes.get("pools", {})),
        parameters=parameters,
        divergence=divergence,
        training=training,
    )


def read_lines(path: Path, *, variant: str, datasets: Collection[str]) -> list[Line]:
    """The lines of one results file, which are of one variant and of datasets that params.yaml names.

    Raises:
        MissingError: no such file.
        MismatchError: wrong columns, types or counts; another variant; another dataset; a duplicate line.
    """
    results = store.read_table(path)
    names = [name for name in results.column_names if name in Line.model_fields]
    try:
        lines = LINES.validate_python(results.select(names).to_pylist())
    except pydantic.ValidationError:
        lines = []
    if not lines:
        raise _mismatch(path, "its columns and types are not those of results, or it has no lines")
    seen = set()
    for line in lines:
        if line.variant != variant:
            raise _mismatch(path, f"it is of {line.variant!r}, expected {variant!r}")
        if line.dataset not in datasets:
            raise _mismatch(path, f"it has dataset {line.dataset!r}, which params.yaml does not name")
        if not 0 <= line.n_correct <= line.n_images or not line.n_images or line.offsets < 1:
            raise _mismatch(path, f"{line.n_correct} of {line.n_images} images is not a count")
        if line.key in seen:
            raise _mismatch(path, f"a line of {line.method} on {line.dataset} appears twice")
        seen.add(line.key)
    return lines


def attributes_of(path: Path, *keys: str) -> dict[str, Any]:
    """The attributes of a results file, which must have some keys; raises as `read_lines`."""
    attributes = store.table_attributes(path)
    if missing := sorted(set(keys) - set(attributes)):
        raise _mismatch(path, f"it does not say its {', '.join(missing)}")
    return attributes


def _mismatch(path: Path, reason: str) -> MismatchError:
    return MismatchError(f"{path} is not as its stage wrote it: {one_line(reason, limit=200)}; run `dvc repro`")


@contextmanager
def as_written() -> Iterator[None]:
    """Turn any error that a damaged file of a run may cause into one line; nobody can list them all."""
    try:
        yield
    except (WsoupError, OSError, ModuleNotFoundError):
        raise
    except Exception as error:
        *_, last = traceback.extract_tb(error.__traceback__)
        raise MismatchError(
            f"a file in artifacts/ or reports/ is not as its stage wrote it ({type(error).__name__}: "
            f"{one_line(error, limit=150)}, at {Path(last.filename).name}:{last.lineno}); run `dvc repro`; if that "
            "does not help, this is a bug"
        ) from error
