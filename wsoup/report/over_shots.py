"""Runs with other numbers of shots: every row, and the points of the paper's figure of accuracy against shots."""

from collections.abc import Iterator, Mapping

from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.row_key import RowKey, judged_row
from wsoup.evaluate.rows import CLASS_NAME, ENSEMBLE, in_order, judged_soups, row_name
from wsoup.report.labels import soup_title
from wsoup.report.record import Record
from wsoup.report.results import PLACES, ROLES
from wsoup.report.tables import TableCells


def every_row(records: Mapping[int, Record]) -> list[dict[str, str | int | float]]:
    """Rows of all runs: {shots, variant, row, source, xd, dg}, per cent; "" where a run has no such place.

    Args:
        records: of the runs, by number of shots.
    """
    rows: list[dict[str, str | int | float]] = []
    for shots, record in records.items():
        for variant, of_variant in record.rows.items():
            for row, places in of_variant.items():
                accuracies = {role: places.get(role, "") for role in ROLES}
                rows.append({"shots": shots, "variant": variant, "row": row, **accuracies})
    return rows


def points(records: Mapping[int, Record]) -> list[TableCells]:
    """What the figure draws: {shots, place, row, accuracy, std} of the rows that `_drawn` names."""
    drawn: list[TableCells] = []
    for shots, record in records.items():
        for title, (variant, row) in _drawn(record):
            places = record.rows.get(variant, {}).get(row, {})
            for role, place in PLACES.items():
                if role in places:
                    deviation = places.get(f"{role} (std)", 0.0)
                    point = {"shots": shots, "place": place, "row": title, "accuracy": places[role], "std": deviation}
                    drawn.append(point)
    return drawn


def _drawn(record: Record) -> Iterator[tuple[str, RowKey]]:
    """Title and key of each row: texts without a search, soups as they are judged, then what was trained."""
    params = record.params
    mode = params["report"]["mode"]
    yield "class name", RowKey(PRETRAINED, CLASS_NAME.name)
    yield "80 templates", RowKey(PRETRAINED, ENSEMBLE.name)
    for soup in judged_soups(in_order(list(params["soups"]))):
        yield soup_title(soup), RowKey(PRETRAINED, judged_row(soup, mode=mode))
    for method, section in params["finetune"]["methods"].items():
        yield f"{method}, finetuned", RowKey(method, judged_row(section["soup"], mode=mode))
    for head, section in (params.get("heads") or {}).items():
        yield f"head {head}", RowKey(head, row_name(section["soup"]))
