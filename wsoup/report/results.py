"""Results of a run: lines of counts as its stages wrote them; accuracies, per cent, are computed here and no earlier.

For one seed, a row of a table (`wsoup.report.tables`) has the mean over the datasets of a role (XD, DG). Reports show
the mean of these over seeds and their standard deviation (n - 1). A file of results that is damaged, swapped or stale
raises an error with its name.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pydantic
from pydantic import Field

from wsoup.base.errors import MismatchError, one_line
from wsoup.check.soups import Soups
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.params import EvaluateParams, ReportParams
from wsoup.evaluate.rows import Method
from wsoup.finetune.params import FinetuneParams
from wsoup.paper.settings import Settings
from wsoup.paper.tables import COLUMNS
from wsoup.params.inputs import Datasets, EncoderParams, FewshotParams
from wsoup.params.section import Name, Sections, Seeds
from wsoup.report.tables import TableRow, table

ROLES = ("source", "xd", "dg")
MEANS = {"xd": "XD mean", "dg": "DG mean"}
PLACES = {"source": "source", **MEANS}
"""Where soups are judged: on the source's test images, and on targets of both roles."""


class RunParams(Sections):
    """The sections of params.yaml that reports depend on."""

    seeds: Seeds
    encoder: EncoderParams
    datasets: Datasets
    fewshot: FewshotParams
    candidates: dict[str, Any]  # only compared, with the paper's and another run's
    soups: Soups
    finetune: FinetuneParams
    heads: dict[Name, Any]  # only names are needed
    evaluate: EvaluateParams
    report: ReportParams


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
        text: of a text that is evaluated alone.
    """

    model_config = pydantic.ConfigDict(frozen=True, strict=True)

    method: str
    variant: str
    mode: str
    m: int | None
    offsets: Annotated[int, Field(ge=1)]
    texts: float
    stored: float | None
    seed: int
    dataset: str
    n_correct: Annotated[int, Field(ge=0)]
    n_images: Annotated[int, Field(ge=1)]
    alignment: float
    uniformity: float
    text: str | None = None

    @property
    def key(self) -> tuple[str | int | None, ...]:
        """What no two lines of a file share."""
        return self.method, self.mode, self.m, self.offsets, self.seed, self.dataset, self.text

    @property
    def accuracy(self) -> float:
        """Per cent."""
        return 100.0 * self.n_correct / self.n_images


LINES = pydantic.TypeAdapter(Annotated[list[Line], Field(min_length=1)])


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
        return float(np.mean(stored)) if stored else None

    def of(self, datasets: Sequence[str]) -> np.ndarray:
        """Accuracies, per cent: (datasets, seeds), NaN where there is no line."""
        known = {(line.dataset, line.seed): line.accuracy for line in self.lines}
        return np.array([[known.get((name, seed), np.nan) for seed in self.seeds] for name in datasets])


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
        members_kl: of each method trained over several texts: for each seed, (iteration, KL between members).
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
    members_kl: Mapping[str, Sequence[Sequence[tuple[int, float]]]] = field(default_factory=dict)
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

    def label(self, row: TableRow) -> str:
        """Label of a row in tables: the paper's where a dataset has the name of one of the paper's."""
        return row.label if COLUMNS.keys() & self.roles else row.plain or row.label

    def datasets(self, role: str | None = None) -> list[str]:
        """Names of the datasets of a role, or of all."""
        return [name for name, its_role in self.roles.items() if role in (None, its_role)]

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
        largest = {line.seed: line.m or 0 for line in sorted(lines, key=lambda line: line.m or 0)}
        lines = [line for line in lines if (line.m or 0) == (size or largest[line.seed])]
        return Cells(lines, self.seeds) if lines else None

    def curve(self, method: Method, *, mode: str) -> dict[int, Cells]:
        """The pretrained model by number of members, without offsets; only sizes for which every result is there."""
        by_size: dict[int, list[Line]] = {}
        for line in self._groups.get((PRETRAINED, method.name, mode), ()):
            if line.offsets == 1 and line.m:
                by_size.setdefault(line.m, []).append(line)
        complete = len(self.roles) * len(self.seeds)
        return {m: Cells(by_size[m], self.seeds) for m in sorted(by_size) if len(by_size[m]) == complete}


def load_results(folder: Path, *, params: RunParams) -> Results:
    """Read ``pretrained/results.parquet`` and, where they exist, ``<method>.parquet`` and ``heads/<head>.parquet``.

    Raises:
        MissingError, MismatchError: no results of the pretrained model; see `read_lines`.
    """
    pretrained = store.require(folder / PRETRAINED / "results.parquet", made_by="evaluate")
    files = {name: folder / f"{name}.parquet" for name in params.finetune.methods}
    files |= {name: folder / "heads" / f"{name}.parquet" for name in params.heads}
    files = {PRETRAINED: pretrained} | {variant: path for variant, path in files.items() if path.exists()}
    lines = [read_lines(path, variant=variant, datasets=params.datasets) for variant, path in files.items()]
    tuned = {variant: store.table_attributes(path) for variant, path in files.items()}
    about = tuned.pop(PRETRAINED)
    return Results(
        [*chain.from_iterable(lines)],
        table(list(params.soups)),
        roles={name: dataset.role for name, dataset in params.datasets.items()},
        evaluate=params.evaluate,
        facts=about["datasets"],
        encoder=about["encoder"],
        settings=Settings.of_run(params.model_dump(mode="json", by_alias=True), pools=about.get("pools", {})),
        parameters={variant: each["parameters"] for variant, each in tuned.items()},
        members_kl={variant: each["members_kl"] for variant, each in tuned.items()},
        training={variant: each["training"] for variant, each in tuned.items() if each.get("training")},
    )


def read_lines(path: Path, *, variant: str, datasets: Collection[str]) -> list[Line]:
    """The lines of one results file, which are of one variant and of datasets that params.yaml names, each once.

    Raises:
        MissingError: no such file.
        MismatchError: wrong columns, types or counts; another variant or dataset; a duplicate line; no line.
    """
    try:
        lines = LINES.validate_python(store.read_table(path).to_pylist())
    except pydantic.ValidationError as error:
        raise _mismatch(path, str(error)) from None
    known = set()
    for line in lines:
        if line.variant != variant or line.dataset not in datasets or line.n_correct > line.n_images:
            raise _mismatch(path, f"no count of {variant!r} on a dataset of params.yaml: {line!r}")
        if line.key in known:
            raise _mismatch(path, f"twice there: {line!r}")
        known.add(line.key)
    return lines


def _mismatch(path: Path, reason: str) -> MismatchError:
    return MismatchError(f"{path} is not as its stage wrote it: {one_line(reason, limit=200)}; run `dvc repro`")
