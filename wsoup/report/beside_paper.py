"""The paper's figures beside a row of ours, and why some are not like for like: another encoder, setting or split."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wsoup.disk.files import PRETRAINED
from wsoup.paper import settings
from wsoup.paper import tables as paper
from wsoup.report.labels import TableRow
from wsoup.report.results import MEANS, Results

N_TARGETS = {MEANS["xd"]: 10, MEANS["dg"]: 4}
"""Datasets of the paper's means."""


class ShownRow(NamedTuple):
    """A row of a table of accuracies.

    Attributes:
        label: as it is shown.
        variant: pretrained, a finetuned method or a head.
        row: of the results.
        theirs: the paper's figures by its columns; empty if the paper does not have the row.
    """

    label: str
    variant: str
    row: TableRow
    theirs: Mapping[str, float]


@dataclass(frozen=True)
class Beside:
    """A figure of the paper.

    Attributes:
        figure: per cent, or numbers stored.
        unlike: why ours is not comparable with it.
    """

    figure: float
    unlike: frozenset[str]


def beside_paper(results: Results, row: ShownRow) -> dict[str, Beside]:
    """Our column -> the paper's figure for a row; only columns that the paper has."""
    if not row.theirs:
        return {}
    marks = settings.marks(
        results.settings,
        paper=results.paper_settings,
        encoder=results.encoder,
        variant=row.variant,
        row=row.row.key,
    )
    beside = {}
    for column, names in results.columns.items():
        figure = row.theirs.get(papers_column(results, column, names))
        if figure is not None:
            unlike = {mark.why for mark in marks}
            for name in names:
                unlike.update(_unlike_dataset(results, name))
            beside[column] = Beside(figure, frozenset(unlike))
    stored = _stored(results, row)
    if stored is not None:
        beside["stored"] = stored
    return beside


def _stored(results: Results, row: ShownRow) -> Beside | None:
    """The paper's number of parameters; None for another encoder, whose parameters are others."""
    thousands = row.theirs.get("parameters_thousands")
    tuned = row.variant != PRETRAINED
    if thousands is None or paper.encoder_differs(results.encoder, tuned=tuned):
        return None
    known = settings.differs_always(
        results.settings,
        paper=results.paper_settings,
        model=str(results.encoder["model"]),
        variant=row.variant,
        row=row.row.key,
        column="stored",
    )
    return Beside(1000.0 * thousands, frozenset(mark.why for mark in known))


def papers_column(results: Results, column: str, names: Sequence[str]) -> str:
    """The paper's column of a dataset, or of a mean over the same datasets; "" if it has none."""
    if not all(_is_papers(results, name) for name in names):
        return ""
    if column not in N_TARGETS:
        return paper.COLUMNS[column]
    # With another source, ImageNet is a target, which it never is in the paper's means.
    same_datasets = len(names) == N_TARGETS[column] and "imagenet" not in names
    if not same_datasets:
        return ""
    return column


def _is_papers(results: Results, name: str) -> bool:
    """Whether a dataset is one of the paper's: by name, by layout on disk, and with all its classes."""
    if name not in paper.COLUMNS:
        return False
    layout = str(results.facts[name].get("layout"))
    if name == "laion" and layout.startswith("laion:"):
        return True
    return layout in ("coop", f"coop:{name}")


def _unlike_dataset(results: Results, name: str) -> list[str]:
    """Why one of the paper's datasets is not as in the paper."""
    facts = results.facts[name]
    reasons = []
    if not facts.get("paper_comparable", True):
        reasons.append(f"{name}: {facts.get('reason', 'another split')}")
    reasons += [mark.why for mark in settings.dataset_differs(results.settings, name)]
    return reasons
