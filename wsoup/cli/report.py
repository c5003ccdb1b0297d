"""`wsoup results` and `report` on the last run, `compare` on two."""

from pathlib import Path
from typing import Annotated

import typer

from wsoup.base.errors import MissingError
from wsoup.cli.common import visible

Everything = Annotated[bool, typer.Option("--all", help="All tables and rows, not only the answer.")]


def results_command(everything: Everything = False) -> None:
    """Show the last run's answer: which texts to use on the source, XD and DG, and whether the gain is noise."""
    from wsoup.report.reading import as_written
    from wsoup.report.terminal import shown

    if not Path("params.yaml").is_file():
        raise MissingError("there is no params.yaml here; run in a pipeline folder, which `wsoup init FOLDER` makes")
    with as_written():
        print(visible(shown(everything=everything)))


def report_command(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("reports/index.html"),
    title: Annotated[str | None, typer.Option(help="The page's heading.")] = None,
) -> None:
    """Write one self-contained page: the answer, a figure, the worst errors; tables and pictures folded.

    Example: wsoup report --out reports/index.html --title "Photos of my garden"
    """
    from wsoup.disk.files import check_ending
    from wsoup.report.page import TITLE, write_page
    from wsoup.report.reading import as_written

    check_ending(out, ".html", ".htm", option="--out")
    with as_written():
        print(write_page(out, title=title or TITLE))


def compare_command(
    first: Annotated[str, typer.Argument(metavar="[REV1]", help="A git revision or a DVC experiment.")] = "HEAD",
    second: Annotated[
        str, typer.Argument(metavar="[REV2]", help="Another one; `workspace` is the current folder.")
    ] = "workspace",
    everything: Everything = False,
) -> None:
    """Compare two runs image by image: params, the run's soup and its members, and other rows beyond noise.

    Example: wsoup compare HEAD~1 HEAD
    """
    from wsoup.report.compare import compare
    from wsoup.report.reading import as_written

    with as_written():
        print(visible(compare(first, second, everything=everything)))
