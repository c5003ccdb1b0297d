"""`wsoup check`: everything that would stop or spoil a run, before it begins."""

from pathlib import Path
from typing import Annotated

import typer

from wsoup.base.errors import MissingError, WsoupError
from wsoup.cli.common import ParamsFile, Terminal, require_pipeline_folder


def check_command(
    params: ParamsFile = Path("params.yaml"),
    deep: Annotated[bool, typer.Option("--deep", help="Also decode every image.")] = False,
) -> None:
    """Check params.yaml, its encoder and its datasets; list problems, one per line, and exit with 1 if there are any.

    Example: wsoup check --deep
    """
    from wsoup.params.reading import read_yaml

    if params == Path("params.yaml"):
        require_pipeline_folder()
    # A missing file is said before a missing package.
    read_yaml(params)
    from wsoup.disk import code
    from wsoup.pipeline.checks import findings
    from wsoup.pipeline.checks.finding import Finding
    from wsoup.pipeline.packages import check_packages
    from wsoup.pipeline.params import load_params

    console = Terminal()
    sections = load_params(params)
    if not Path("dvc.yaml").is_file():
        # Said alone: the paths of a profile are relative to a pipeline folder, so other errors would name wrong cures.
        raise MissingError(
            f"there is no dvc.yaml here, so nothing can run {params}; `wsoup init FOLDER` makes a pipeline folder: "
            "write the profile there"
        )
    # All problems at once, warnings too: a run of hours should not meet the second one.
    every = findings.without_model(sections, deep=deep) + findings.of_files(params)
    try:
        check_packages(code.installed())
    except WsoupError as error:
        every.append(Finding("error", "", str(error)))
    for finding in every:
        console.plain(str(finding))
    # Last, since a model that has changed takes seconds to look at.
    of_model = findings.of_model(sections, said=every)
    for finding in of_model:
        console.plain(str(finding))
    every += of_model
    if any(finding.kind == "error" for finding in every):
        raise typer.Exit(1)
    if every:
        console.plain("no errors; next: dvc repro")
    else:
        console.plain("no problems; next: dvc repro")
