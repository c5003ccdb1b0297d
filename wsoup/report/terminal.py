"""What is printed: the short table at the end of a run, and any table on a terminal."""

from __future__ import annotations

import rich.table

from wsoup.report.results import PRETRAINED, ROWS, Results, mean_and_std
from wsoup.report.tables import Table, cell, is_number, shown_columns


def summary(results: Results) -> str:
    """Source, XD and DG mean of every row, ± standard deviation over seeds."""
    heads = [("source", "source"), ("XD mean", "xd"), ("DG mean", "dg")]
    shown = [(head, role) for head, role in heads if results.datasets(role)]
    lines = [f"{'per cent':<44}" + "".join(f"{head:>15}" for head, _ in shown)]
    for variant in results.variants:
        for row in ROWS:
            cells = results.cells(variant, row)
            if cells is None:
                continue
            label = row.label if variant == PRETRAINED else f"{variant}: {row.label}"
            line = f"{label[:43]:<44}"
            for _, role in shown:
                mean, deviation = mean_and_std(cells.of(results.datasets(role)))
                line += f"{mean:>8.2f} ± {deviation:>4.2f}" if is_number(mean) else f"{'':>15}"
            lines.append(line)
    return "\n".join(lines)


def render(table: Table) -> rich.table.Table:
    """A table for the terminal, with its title and notes; cells as in Markdown."""
    columns = shown_columns(table.columns)
    shown = rich.table.Table(title=table.title, caption="\n".join(table.notes) or None, caption_justify="left")
    for column in columns:
        texts = any(isinstance(row.get(column), str) for row in table.rows)
        shown.add_column(column, justify="left" if texts else "right")
    for row in table.rows:
        shown.add_row(*(cell(row, column) for column in columns))
    return shown
