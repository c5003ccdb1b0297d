"""Which rows of a run its params feed: `wsoup compare` shows those of the edited params first.

Of a soup, a finetuned method or a head one row speaks for all of its rows: the soup as a centroid (the run's with all
seeds together), the method and the head with the texts of their soup. What feeds a row, the graph of stages says.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.made_from import OFFSETS, made_from
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.right import all_seeds
from wsoup.evaluate.row_key import RowKey
from wsoup.evaluate.rows import (
    CLASS_NAME,
    ENSEMBLE,
    GIVEN,
    RANDOM_CHAINS,
    RANDOM_DESCRIPTORS,
    WAFFLE,
    judged_soups,
    row_name,
)
from wsoup.params.graph import Graph, graph_of, is_fed, own_dvc_yaml
from wsoup.report.labels import baseline_rows, soup_title, template_rows
from wsoup.report.record import Record

SHORT = {
    CLASS_NAME.name: "class name",
    ENSEMBLE.name: "80 templates",
    RANDOM_DESCRIPTORS.name: "random texts",
    WAFFLE.name: "Waffle",
    RANDOM_CHAINS.name: "random chains",
}
"""Baselines whose label in tables is longer than the column, or says nothing to whom the paper is new."""


class FedRow(NamedTuple):
    """A row that `wsoup compare` can show first.

    Attributes:
        key: variant and row.
        title: as it is shown.
        params: dotted keys of params.yaml that feed it.
    """

    key: RowKey
    title: str
    params: Sequence[str]

    def is_fed_by(self, param: str) -> bool:
        """Whether a dotted key is one of `params`, or lies in one."""
        return any(is_fed(param, by=own) for own in self.params)


def fed_rows(record: Record, *, changed: Sequence[str]) -> list[FedRow]:
    """The rows that some edited params feed, those that the run is about first.

    Args:
        record: of the later run.
        changed: dotted keys. If there are none, or none that feeds a row, the rows that the run is about are returned.
    """
    main, others = _rows(record)
    # A param such as report.gallery feeds none: then what the run is about is still what a reader wants to see.
    fed = []
    for row in (*main, *others):
        if any(row.is_fed_by(param) for param in changed):
            fed.append(row)
    return fed or main


def every_row(record: Record) -> list[FedRow]:
    """All rows that can be shown first, those that the run is about before the others."""
    main, others = _rows(record)
    return [*main, *others]


def _rows(record: Record) -> tuple[list[FedRow], list[FedRow]]:
    """The rows that a run is about (its soup, its finetuned method, its first head), and all others."""
    params = record.params
    graph = graph_of(own_dvc_yaml(), params=params)
    about = {all_seeds(record.soup), params["report"].get("method"), next(iter(params["heads"]), None)}
    main = []
    others = []
    for key, title in _titles(record):
        row = FedRow(key, title, _feeding(key, record=record, graph=graph))
        variant, name = key
        of_run = name if variant == PRETRAINED else variant
        if of_run in about:
            main.append(row)
        else:
            others.append(row)
    return main, others


def _titles(record: Record) -> Iterator[tuple[RowKey, str]]:
    """The rows, as they are shown, in their order."""
    params = record.params
    soups = judged_soups(list(params["soups"]))
    for name in soups:
        row = all_seeds(name) if name == record.soup else row_name(name)
        yield RowKey(PRETRAINED, row), soup_title(name)
    for name, method in params["finetune"]["methods"].items():
        yield RowKey(name, row_name(method["soup"])), name
    for name, head in params["heads"].items():
        yield RowKey(name, row_name(head["soup"])), f"head {name}"
    own = any(dataset.get("templates") for dataset in params.get("datasets", {}).values())
    lists = EvaluateParams.lists_in(params.get("evaluate", {}).get("templates"))
    for baseline in [*baseline_rows(), *template_rows(lists, own=own)]:
        name = baseline.method.name
        yield RowKey(PRETRAINED, name), SHORT.get(name, baseline.label)
    yield RowKey(PRETRAINED, GIVEN), "texts of params.yaml"
    for name in soups:
        yield RowKey(PRETRAINED, f"{row_name(name)}_offsets"), f"{soup_title(name)}, offsets"


def _feeding(key: RowKey, *, record: Record, graph: Graph) -> Sequence[str]:
    """The keys of params.yaml that feed a row."""
    variant, row = key
    if row.endswith("_offsets"):
        # For all else that feeds it, the soup's own row speaks.
        return OFFSETS
    params: Mapping[str, Any] = record.params
    own = []
    if row == all_seeds(record.soup):
        row = row_name(record.soup)
        own = ["report.soup", "report.mode"]
    elif variant == params["report"].get("method"):
        own = ["report.method"]
    return [*made_from(variant, row, params=params).deciding(graph), *own]
