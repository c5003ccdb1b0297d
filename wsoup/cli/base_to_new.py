"""`wsoup base-to-new`: every dataset with half of its classes as source, and the other half as target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wsoup.base.errors import DataError
from wsoup.cli.common import Force, check_ending, claim, require_pipeline_folder, say
from wsoup.runtime.terminal import printing_to_stderr

if TYPE_CHECKING:
    from wsoup.report.over_datasets import Halves
    from wsoup.report.record import Record

MADE = "# From base to new classes"
"""How a page of this command begins; another one is not replaced without --force."""


def base_to_new_command(
    datasets: Annotated[
        str | None, typer.Option(help="Names of params.yaml, such as pets,cars (default: all that can be divided).")
    ] = None,
    data_root: Annotated[
        str | None,
        typer.Option(help="Not params.yaml's datasets, but the paper's, in CoOp's folders below this one."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("base_to_new.md"),
    figure: Annotated[Path | None, typer.Option("--figure", help="Also draw the rows, as an .svg file.")] = None,
    force: Force = False,
) -> None:
    """Learn on half of each dataset's classes, test on both halves, and print every row as CSV (CoOp's protocol).

    Each run is an experiment of DVC beside the folder, which stays as it is. Runs that
    ended are found again, and an interrupted one goes on. Also writes the rows and
    their means as a page, beside published figures of the paper's datasets.

    Example: wsoup base-to-new --figure base_to_new.svg > base_to_new.csv
    """
    require_pipeline_folder()
    from wsoup.disk.csv_rows import write_rows
    from wsoup.disk.store import write_bytes
    from wsoup.report import over_datasets

    check_ending(out, ".md", option="--out")
    is_made = out.is_file() and out.read_text(encoding="utf-8", errors="replace").startswith(MADE)
    claim([("--out", out)], force=force or is_made)
    if figure is not None:
        from wsoup.report.svg import is_figure

        check_ending(figure, ".svg", option="--figure")
        claim([("--figure", figure)], force=force or is_figure(figure))
    with printing_to_stderr():
        by_dataset, records = _runs(datasets, data_root=data_root)
    beside = {}
    for dataset, record in records.items():
        name = over_datasets.published_name(record, dataset=dataset)
        if name is not None:
            beside[dataset] = name
    page = over_datasets.markdown(by_dataset, beside=beside)
    write_bytes(out, page.encode())
    if figure is not None:
        from wsoup.report.svg import write_points

        # The soups and methods of one run are those of all.
        first, *_ = records.values()
        write_points(figure, over_datasets.points(by_dataset, record=first), name="base_to_new")
    write_rows(None, over_datasets.csv_rows(by_dataset))


def _runs(wanted: str | None, *, data_root: str | None) -> tuple[dict[str, list[Halves]], dict[str, Record]]:
    """The rows of each dataset, and the record of its run; runs that are missing are done."""
    from wsoup.params.reading import read_yaml
    from wsoup.pipeline.experiments import Experiment, finished, named, run_missing
    from wsoup.pipeline.halves import divided, hours_of
    from wsoup.report.over_datasets import TABLE, read_halves

    raw: dict[str, Any] = dict(read_yaml("params.yaml"))
    sections = raw["datasets"] if data_root is None else _of_paper(data_root)
    names = None if wanted is None else [name.strip() for name in wanted.split(",")]
    runs, left_out = divided(raw, datasets=sections, wanted=names)
    say(f"left out: {line}" for line in left_out)
    if not runs:
        raise DataError("no dataset can be divided into base and new classes; the lines above say why")
    experiments = {}
    for run in runs:
        name = named(f"base-to-new-{run.dataset}", params=run.params.model_dump(mode="json", by_alias=True))
        experiments[run.dataset] = Experiment(name, run.dataset, run.edits, hours_of(run))
    run_missing(list(experiments.values()))
    revisions = {dataset: finished(experiment.name) for dataset, experiment in experiments.items()}
    by_dataset = {}
    for dataset, revision in revisions.items():
        by_dataset[dataset] = read_halves(dataset, revision.text(TABLE), seeds=len(raw["seeds"]))
    return by_dataset, {dataset: revision.record for dataset, revision in revisions.items()}


def _of_paper(data_root: str) -> Mapping[str, Mapping[str, Any]]:
    """Sections of the paper's datasets that have training images, as `wsoup profile paper` writes them."""
    from wsoup.datasets.walk import require_folder
    from wsoup.pipeline.profiles.paper import Paper

    require_folder(data_root, given_by="--data-root")
    sections: Any = Paper(str(Path(data_root).resolve())).values()["datasets"]
    return {name: section for name, section in sections.items() if section["role"] != "dg"}
