"""The table of metrics besides accuracy: calibration, and what somebody has added (CONTRIBUTING.md has an example)."""

from wsoup.report.results import PLACES, Results
from wsoup.report.tables import Table, TableCells, mean_and_std

PLACES_SHOWN = 3
"""Decimal places: what is added is seldom a percentage."""


def row_metrics(results: Results) -> Table:
    """Every row with the mean of each metric on the source, XD and DG; without metrics the table has no rows."""
    places = {role: title for role, title in PLACES.items() if results.datasets(role)}
    columns = ["method"]
    for metric in results.metrics:
        for title in places.values():
            column = f"{title}: {metric}"
            columns += [column, f"{column} (std)"]
    rows: list[TableCells] = []
    for variant, row, cells in results.rows():
        line: dict[str, object] = {"method": results.title(variant, row)}
        for metric in results.metrics:
            for role, title in places.items():
                column = f"{title}: {metric}"
                values = cells.of(results.datasets(role), metric=metric)
                line[column], line[f"{column} (std)"] = mean_and_std(values)
        rows.append(line)
    notes = ["Counted besides accuracy, from the same scores; means over datasets, then seeds, ± deviation over seeds."]
    if "calibration_error" in results.metrics:
        notes.append(
            "Probabilities are the softmax of scores times the model's logit scale (a head's: at its own temperature). "
            "calibration_error: how far confidence and accuracy lie apart, over 15 bins of confidence, from 0 to 1. "
            "log_likelihood: of the right class, in nats; nearer to 0 is better."
        )
    return Table("row_metrics", "Other metrics", columns, rows, notes, places=dict.fromkeys(columns, PLACES_SHOWN))
