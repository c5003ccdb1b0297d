"""`wsoup shots`: the same run with fewer few-shot images, the paper's figure of accuracy over shots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wsoup.base.number_of import number_of
from wsoup.cli.common import Force, check_ending, claim, require_pipeline_folder
from wsoup.runtime.terminal import printing_to_stderr

if TYPE_CHECKING:
    from wsoup.report.record import Record

SHOTS = (1, 2, 4, 8, 16)
"""The numbers of few-shot images in the paper's figure; those above ``fewshot.shots`` of params.yaml are left out."""
WHATEVER_SHOTS = ("prepare", "embed", "candidates", "evaluated")
"""Stages that do not depend on the number of shots, or hardly: their results are found in DVC's cache."""
Figure = Annotated[Path | None, typer.Option("--figure", help="Also draw the runs, as an .svg file.")]


def shots_command(figure: Figure = None, force: Force = False) -> None:
    """Run params.yaml with 1, 2, 4, 8 and 16 shots, and print every row of all runs as CSV: the paper's figure.

    Each run is an experiment of DVC beside the folder, which stays as it is. Runs that ended are found again, and an
    interrupted one goes on.

    Example: wsoup shots --figure shots.svg > shots.csv
    """
    require_pipeline_folder()
    from wsoup.disk.csv_rows import write_rows
    from wsoup.report import over_shots

    if figure is not None:
        from wsoup.report.svg import is_figure

        check_ending(figure, ".svg", option="--figure")
        claim([("--figure", figure)], force=force or is_figure(figure))
    with printing_to_stderr():
        records = _runs()
    if figure is not None:
        from wsoup.report.svg import write_points

        write_points(figure, over_shots.points(records), name="shots")
    write_rows(None, over_shots.every_row(records))


def _runs() -> dict[int, Record]:
    """The record of each run by its number of shots; those that are missing are run."""
    from wsoup.params.reading import read_yaml
    from wsoup.pipeline.experiments import Experiment, finished, named, run_missing

    params = dict(read_yaml("params.yaml"))
    hours = _hours()
    experiments = {}
    for n in SHOTS:
        if n <= params["fewshot"]["shots"]:
            name = named(f"shots-{n}", params=params)
            about = number_of(n, "shot")
            experiments[n] = Experiment(name, about, [f"fewshot.shots={n}"], hours)
    run_missing(list(experiments.values()))
    return {n: finished(experiment.name).record for n, experiment in experiments.items()}


def _hours() -> float:
    """About how long a run takes, at most."""
    from wsoup.pipeline.planning.plan import plan

    stages, _ = plan()
    hours = 0.0
    for name, each in stages.items():
        stage, _, _ = name.partition("@")
        if stage not in WHATEVER_SHOTS:
            hours += each.hours
    return hours
