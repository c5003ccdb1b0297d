"""`wsoup models`: encoders with published figures, to choose one."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from wsoup.cli.common import Force, Terminal, check_ending, claim
from wsoup.runtime.terminal import printing_to_stderr


def models_command(
    part: Annotated[str, typer.Argument(metavar="[PART]", help="Only names or tags with this in them.")] = "",
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Also draw accuracy against FLOPs, as an .svg file.")
    ] = None,
    force: Force = False,
) -> None:
    """List the encoders that open_clip publishes figures of: size, cost, ImageNet accuracy, and whether they are here.

    A table on a terminal, CSV in a file or a pipe. `wsoup profile own` and `paper` take
    the name and the tag as --model and --pretrained.

    Example: wsoup models ViT-B > models.csv
    """
    from wsoup.base.errors import ParamsError
    from wsoup.disk.csv_rows import write_rows
    from wsoup.paper.published import encoders
    from wsoup.paper.published_models import points, rows

    if figure is not None:
        from wsoup.report.svg import is_figure

        check_ending(figure, ".svg", option="--figure")
        claim([("--figure", figure)], force=force or is_figure(figure))
    every = encoders()
    # Written as asked where there are such: ViT-B is not ViT-bigG.
    known = [each for each in every if part in each.title]
    if not known:
        known = [each for each in every if part.casefold() in each.title.casefold()]
    if not known:
        raise ParamsError(f"no published encoder has {part!r} in its name or tag; `wsoup models` lists all")
    with printing_to_stderr():
        from wsoup.pipeline.checks.downloads import tags_here

        here = tags_here([(each.model, each.pretrained) for each in known])
    if figure is not None:
        from wsoup.report.svg import write_points

        write_points(figure, points(known), name="models")
    listed = rows(known, here={f"{model} / {tag}" for model, tag in here})
    if sys.stdout.isatty():
        _show(listed)
    else:
        write_rows(None, listed)


def _show(listed: Sequence[Mapping[str, str | float]]) -> None:
    """Print rows as a table."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in listed[0]:
        table.add_column(column.replace("_", " "), justify="left" if column in ("model", "pretrained") else "right")
    for row in listed:
        table.add_row(*map(str, row.values()))
    Terminal().print(table)
