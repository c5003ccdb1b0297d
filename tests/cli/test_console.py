"""What is printed into a file or a pipe is not cut to the 80 columns of a terminal that is not there."""

from __future__ import annotations

from rich.table import Table
from wsoup.cli.console import console


def test_off_a_terminal_a_table_is_as_wide_as_its_cells(capsys):
    table = Table(box=None, pad_edge=False)
    for title in ("dataset", "reason"):
        table.add_column(title, no_wrap=True)
    table.add_row("photos", "x " * 120)
    console().print(table)
    assert ("x " * 120).strip() in capsys.readouterr().out
