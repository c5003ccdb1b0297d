"""`wsoup results` and `report` on the last run, `compare` on two."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from wsoup.base.errors import ParamsError
from wsoup.cli.common import ParamsFile, Terminal


def results_command(params: ParamsFile = Path("params.yaml")) -> None:
    """Show the last run: accuracy on the source, XD and DG means, each target's gain, and whether it is noise."""
    from wsoup.report.terminal import whole_run

    print(whole_run(params))


def report_command(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("reports/index.html"),
    params: ParamsFile = Path("params.yaml"),
    title: Annotated[str | None, typer.Option(help="The page's heading.")] = None,
) -> None:
    """Write one self-contained page: the result, tables, figures, soups, and images whose answer a soup changed.

    Example: wsoup report --out reports/index.html --title "Photos of my garden"
    """
    from wsoup.disk.files import check_ending
    from wsoup.report.page import TITLE, write_page
    from wsoup.report.reading import as_written

    check_ending(out, ".html", ".htm", option="--out")
    with as_written():
        print(write_page(out, params_file=params, title=title or TITLE))


def compare_command(
    first: Annotated[str, typer.Argument(metavar="REV1", help="A git revision or a DVC experiment.")],
    second: Annotated[
        str, typer.Argument(metavar="[REV2]", help="Another one; `workspace` is the current folder.")
    ] = "workspace",
    row: Annotated[str, typer.Option(help="A row of reports/metrics.json, or `all`.")] = "word_soup",
) -> None:
    """Compare two revisions: params that differ, and accuracy per dataset with its interval.

    Example: wsoup compare HEAD
    """
    from wsoup.report.compare import compare
    from wsoup.report.reading import as_written

    with as_written():
        params, accuracies = compare(first, second)
    lines = [line for line in accuracies.rows if row in ("all", line["row"])]
    if accuracies.rows and not lines:
        known = ", ".join(dict.fromkeys(line["row"] for line in accuracies.rows))
        raise ParamsError(f"--row {row!r} is in neither revision; there are {known}, and all")
    _print_table(params)
    _print_table(replace(accuracies, rows=lines))


def _print_table(table: Any) -> None:
    """Print a report's table."""
    from wsoup.report.tables import cell, shown_columns

    columns = shown_columns(table.columns)
    drawn = Table(box=None, pad_edge=False, title=table.title, title_justify="left", title_style="bold")
    for column in columns:
        drawn.add_column(column, overflow="fold", no_wrap=column == "row")
    for row in table.rows:
        drawn.add_row(*(cell(row, column) for column in columns))
    console = Terminal()
    console.print(drawn, markup=False)
    for note in table.notes:
        console.print(note, markup=False)
