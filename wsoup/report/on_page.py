"""The tables of reports/ as the page shows them: fewer columns, with intervals beside their gains."""

from dataclasses import replace

from wsoup.report.tables import Table, TableCells, interval_of

ENDS = (" low", " high")
OF_TEXTS = ("kind", "text", "source", "source change", "xd", "xd change", "dg", "dg change")
"""Columns of single texts; the other forty are those of each dataset."""
IN_FILE = "Alignment, uniformity and every dataset: reports/tables/single_texts.csv."


def on_page(table: Table) -> Table:
    """A table as the page shows it."""
    if table.name == "single_texts":
        columns = [column for column in OF_TEXTS if column in table.columns]
        return replace(table, columns=columns, notes=[*table.notes, IN_FILE])
    if any(column.endswith(ENDS) for column in table.columns):
        columns = [column for column in table.columns if not column.endswith(ENDS)]
        return replace(table, columns=columns, rows=[_with_intervals(row) for row in table.rows])
    return table


def _with_intervals(row: TableCells) -> TableCells:
    """A row with an interval for each column that has a low and a high end."""
    shown = dict(row)
    for column, low in row.items():
        place = column.removesuffix(" low")
        high = row.get(f"{place} high")
        if column != place:
            shown[f"{place} (interval)"] = interval_of(low, high)
    return shown
