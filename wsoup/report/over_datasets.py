"""From base to new classes over several datasets: rows of each, means as the papers have them, and the figure.

A dataset's base and new are means over seeds, and its H is the mean of the seeds' harmonic means. Over datasets CoCoOp
and those after it print the harmonic mean of the two means; the mean of the datasets' H, which is lower, stands beside.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wsoup.base import project
from wsoup.datasets.paper import PAPER
from wsoup.evaluate.rows import CLASS_NAME, ENSEMBLE, in_order, judged_mode, judged_soups
from wsoup.paper.tables import encoder_differs
from wsoup.report.labels import BEFORE_SOUPS, soup_label
from wsoup.report.record import Record
from wsoup.report.tables import Table, TableCells

TABLE = Path("reports/tables/base_to_new.csv")
PUBLISHED = Path("data/published/base_to_new.csv")
TITLE = "From base to new classes"
COLUMNS = ("method", "texts", "base", "new", "H")
MEAN = "all datasets, H of the means"
MEAN_OF_H = "all datasets, mean of H"
NOTE = (
    "Per cent. Base and new are means over seeds, H the mean of the seeds' harmonic means. Over all datasets, H is the "
    "harmonic mean of the two means, as in CoCoOp; the mean of the datasets' H is the last column."
)
THEIRS = (
    "Published: ViT-B/16 (OpenAI), 16 shots, {over}; their training and few-shot images are their own. Source: "
    "{sources}."
)
ALL = "all"
"""Stands for the eleven datasets in the file of published figures."""
WITH_TRAINING = {name for name, known in PAPER.items() if known.role != "dg"}


class Halves(NamedTuple):
    """One row of one dataset.

    Attributes:
        dataset, method: which.
        texts: mean number of texts of a class.
        base, new, h: per cent.
        seeds: how many.
    """

    dataset: str
    method: str
    texts: float
    base: float
    new: float
    h: float
    seeds: int


class Means(NamedTuple):
    """One row over all datasets.

    Attributes:
        method, texts, base, new: means.
        h: harmonic mean of `base` and `new`.
        mean_of_h: of the datasets' H.
        seeds: of each dataset.
    """

    method: str
    texts: float
    base: float
    new: float
    h: float
    mean_of_h: float
    seeds: int


def read_halves(dataset: str, table: str, *, seeds: int) -> list[Halves]:
    """The rows of one run, from the CSV of its table base_to_new; one name for a row, whatever the dataset's."""
    rows = []
    for line in csv.DictReader(io.StringIO(table)):
        cells = [line[column] for column in ("m", "base", "new", "H")]
        # A head knows no new classes.
        if all(cells):
            texts, base, new, h = map(float, cells)
            rows.append(Halves(dataset, _plain(line["method"]), texts, base, new, h, seeds))
    return rows


def _plain(method: str) -> str:
    """A row's name for readers who do not know the paper's, which tables of the paper's datasets have."""
    for row in BEFORE_SOUPS:
        if row.plain and (method == row.label or method.endswith(f" + {row.label}")):
            return method.removesuffix(row.label) + row.plain
    return method


def harmonic(base: float, new: float) -> float:
    """Of two accuracies; 0 where both are.

    >>> harmonic(60.0, 30.0)
    40.0
    """
    return 2 * base * new / (base + new) if base + new else 0.0


def means(by_dataset: Mapping[str, Sequence[Halves]]) -> list[Means]:
    """Of every row that all datasets have, in the order of the first."""
    every = list(by_dataset.values())
    rows = []
    for first in every[0]:
        same = [row for of_dataset in every for row in of_dataset if row.method == first.method]
        if len(same) != len(every):
            continue
        n = len(same)
        texts, base, new, h = (sum(values) / n for values in zip(*(row[2:6] for row in same), strict=True))
        rows.append(Means(first.method, texts, base, new, harmonic(base, new), h, first.seeds))
    return rows


def csv_rows(by_dataset: Mapping[str, Sequence[Halves]]) -> list[dict[str, str | int | float | None]]:
    """Rows of all datasets, then those over all, once with each H: {dataset, method, texts, base, new, h, seeds}."""
    rows = [row for of_dataset in by_dataset.values() for row in of_dataset]
    listed = [_csv_row(row) for row in rows]
    if len(by_dataset) > 1:
        for mean in means(by_dataset):
            for dataset, h in ((MEAN, mean.h), (MEAN_OF_H, mean.mean_of_h)):
                row = Halves(dataset, mean.method, mean.texts, mean.base, mean.new, h, mean.seeds)
                listed.append(_csv_row(row))
    return listed


def _csv_row(row: Halves) -> dict[str, str | int | float | None]:
    values = row._asdict()
    for column in ("texts", "base", "new", "h"):
        values[column] = round(values[column], 4)
    return values


def markdown(by_dataset: Mapping[str, Sequence[Halves]], *, beside: Mapping[str, str]) -> str:
    """The page: means over all datasets first, then each dataset.

    Args:
        by_dataset: the rows.
        beside: of datasets whose published figures are of the same protocol, the name that these have there.
    """
    parts = []
    theirs = published()
    if len(by_dataset) > 1:
        columns = (*COLUMNS, "mean of H")
        rows: list[TableCells] = []
        for mean in means(by_dataset):
            row = dict(zip(columns, mean[:6], strict=True))
            rows.append({**row, "texts": f"{mean.texts:g}"})
        notes = [NOTE]
        if set(beside) == set(by_dataset) and {*beside.values()} == WITH_TRAINING:
            rows += _rows_of(theirs, dataset=ALL)
            notes.append(
                THEIRS.format(over="means over three seeds and the same eleven datasets", **_sources(theirs, ALL))
            )
        n_datasets = len(by_dataset)
        parts.append(Table("", f"{TITLE}: means over {n_datasets} datasets", columns, rows, notes).as_markdown())
    for dataset, of_dataset in by_dataset.items():
        lines: list[TableCells] = []
        for each in of_dataset:
            lines.append(
                {"method": each.method, "texts": f"{each.texts:g}", "base": each.base, "new": each.new, "H": each.h}
            )
        notes = [f"Means over {of_dataset[0].seeds} seeds." if of_dataset else "No rows."]
        if dataset in beside:
            lines += _rows_of(theirs, dataset=beside[dataset])
            notes.append(THEIRS.format(over="means over three seeds", **_sources(theirs, beside[dataset])))
        parts.append(Table("", f"{TITLE}: {dataset}", COLUMNS, lines, notes).as_markdown())
    return "\n".join(parts)


def published_name(record: Record, *, dataset: str) -> str | None:
    """The dataset of published figures that a run is comparable with: same images, encoder and shots; None if none is.

    Args:
        record: of the run.
        dataset: its source.
    """
    params = record.params
    section = params["datasets"][dataset]
    kind, _, name = str(section.get("layout", "")).partition(":")
    name = name or dataset
    same_encoder = encoder_differs({**params["encoder"], "quick_gelu": True}, tuned=True) is None
    if kind == "coop" and name in WITH_TRAINING and same_encoder and params["fewshot"]["shots"] == 16:
        return name
    return None


def published() -> list[dict[str, str]]:
    """Figures of CoOp's protocol: {dataset, method, base, new, h, source}; a dataset of the paper, or `ALL`."""
    path = PUBLISHED if PUBLISHED.exists() else project.file(str(PUBLISHED))
    with open(path, encoding="utf-8", newline="") as file:
        # A file of an earlier version, which had means alone, named no dataset.
        return [{"dataset": ALL, **line} for line in csv.DictReader(file)]


def _rows_of(theirs: Sequence[Mapping[str, str]], *, dataset: str) -> list[TableCells]:
    rows: list[TableCells] = []
    for line in theirs:
        if line["dataset"] == dataset:
            figures = {"base": float(line["base"]), "new": float(line["new"]), "H": float(line["h"])}
            rows.append({"method": f"{line['method']}, published", **figures})
    return rows


def _sources(theirs: Sequence[Mapping[str, str]], dataset: str) -> dict[str, str]:
    named = dict.fromkeys(line["source"] for line in theirs if line["dataset"] == dataset)
    return {"sources": "; ".join(named)}


def points(by_dataset: Mapping[str, Sequence[Halves]], *, record: Record) -> list[dict[str, str | float]]:
    """What the figure draws: {dataset, method, classes, accuracy} of the rows that the run is judged by.

    Args:
        by_dataset: the rows.
        record: of one of the runs, whose soups and methods are those of all.
    """
    methods = _drawn(record)
    drawn: list[dict[str, str | float]] = []
    for of_dataset in by_dataset.values():
        for row in of_dataset:
            if row.method in methods:
                for classes, accuracy in (("base", row.base), ("new", row.new), ("H", row.h)):
                    drawn.append(
                        {
                            "dataset": row.dataset,
                            "method": row.method,
                            "classes": classes,
                            "accuracy": round(accuracy, 3),
                        }
                    )
    return drawn


def _drawn(record: Record) -> list[str]:
    """Names of the rows of texts without a search, of soups as they are judged, and of what was trained."""
    params = record.params
    mode = params["report"]["mode"]

    def label(soup: str) -> str:
        return soup_label(soup) + (" score mean" if judged_mode(soup, mode=mode) == "score_mean" else "")

    names = [row.plain for row in BEFORE_SOUPS if row.key in (CLASS_NAME.name, ENSEMBLE.name) and row.plain]
    names += [label(soup) for soup in judged_soups(in_order(list(params["soups"])))]
    for method, section in params["finetune"]["methods"].items():
        soup = section["soup"]
        names.append(method if soup == CLASS_NAME.name else f"{method} + {label(soup)}")
    return names
