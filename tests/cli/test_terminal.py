"""Output to a file or a pipe is not cut to 80 columns."""

from __future__ import annotations

from rich.table import Table

from wsoup.cli.common import Terminal


def test_in_a_pipe_a_table_is_as_wide_as_its_cells(capsys):
    table = Table(box=None, pad_edge=False)
    for title in ("dataset", "reason"):
        table.add_column(title, no_wrap=True)
    table.add_row("photos", "x " * 120)
    Terminal().print(table)
    assert ("x " * 120).strip() in capsys.readouterr().out
