"""Which rows of a run its params feed: `wsoup compare` shows those of the edited params first.

A row is fed by the params that its texts, weights and images come from. Of a soup, a finetuned method or a head one row
speaks for all of its rows: the soup as a centroid (the run's with all seeds together), the method and the head with the
texts of their soup.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.right import all_seeds
from wsoup.evaluate.rows import CLASS_NAME, CURVE, ENSEMBLE, RANDOM_DESCRIPTORS, WAFFLE, row_name
from wsoup.report.labels import soup_title
from wsoup.report.record import Record
from wsoup.report.revisions import RowKey

EVERYWHERE = ("encoder", "datasets")
"""Feed every row."""
SELECTION = (*EVERYWHERE, "seeds", "fewshot", "candidates.on_long_text")
"""Feed every soup, which is selected on few-shot images of each seed."""
DRAWS = ((RANDOM_DESCRIPTORS.name, "random texts"), (WAFFLE.name, "Waffle"))


class FedRow(NamedTuple):
    """A row that `wsoup compare` can show first.

    Attributes:
        key: variant and row.
        title: as it is shown.
        params: dotted keys of params.yaml, and beginnings of keys, that feed it.
    """

    key: RowKey
    title: str
    params: Sequence[str]

    def is_fed_by(self, param: str) -> bool:
        """Whether a dotted key is one of `params`, or lies in one."""
        return any(f"{param}.".startswith(f"{own}.") for own in self.params)


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


def _rows(record: Record) -> tuple[list[FedRow], list[FedRow]]:
    """The rows that a run is about (its soup, its finetuned method, its first head), and all others."""
    params = record.params
    about = {all_seeds(record.soup), params["report"].get("method"), next(iter(params["heads"]), None)}
    main = []
    others = []
    for row in (*_soups(record), *_methods(params), *_heads(params), *_baselines()):
        variant, name = row.key
        of_run = name if variant == PRETRAINED else variant
        if of_run in about:
            main.append(row)
        else:
            others.append(row)
    return main, others


def _soups(record: Record) -> Iterator[FedRow]:
    soups = record.params["soups"]
    for name in soups:
        # Only drawn: its first members are another soup's.
        if name == CURVE:
            continue
        title = soup_title(name)
        feeding = _feeding_soup(name, soups=soups)
        if name == record.soup:
            yield FedRow((PRETRAINED, all_seeds(name)), title, (*feeding, "report.soup", "report.mode"))
        else:
            yield FedRow((PRETRAINED, row_name(name)), title, feeding)


def _feeding_soup(name: str, *, soups: Mapping[str, Any]) -> tuple[str, ...]:
    """What feeds a soup of params.yaml, or that of the bare class name."""
    if name not in soups:
        return SELECTION
    pool = soups[name]["pool"]
    return (*SELECTION, f"candidates.{pool}", f"soups.{name}")


def _methods(params: Mapping[str, Any]) -> Iterator[FedRow]:
    finetune = params["finetune"]
    shared = [f"finetune.{key}" for key in finetune if key != "methods"]
    for name, method in finetune["methods"].items():
        feeding = _feeding_soup(method["soup"], soups=params["soups"])
        own = [f"finetune.methods.{name}"]
        if name == params["report"].get("method"):
            own.append("report.method")
        yield FedRow((name, row_name(method["soup"])), name, (*own, *shared, *feeding))


def _heads(params: Mapping[str, Any]) -> Iterator[FedRow]:
    for name, head in params["heads"].items():
        feeding = _feeding_soup(head["soup"], soups=params["soups"])
        yield FedRow((name, row_name(head["soup"])), f"head {name}", (f"heads.{name}", *feeding))


def _baselines() -> Iterator[FedRow]:
    yield FedRow((PRETRAINED, CLASS_NAME.name), "class name", EVERYWHERE)
    yield FedRow((PRETRAINED, ENSEMBLE.name), "80 templates", EVERYWHERE)
    for row, title in DRAWS:
        yield FedRow((PRETRAINED, row), title, (*EVERYWHERE, "seeds", "candidates", "evaluate.baseline_m"))
