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
    from wsoup.pipeline.findings import findings
    from wsoup.pipeline.lock_file import damaged
    from wsoup.pipeline.missing_keys import missing_keys
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
    every = findings(sections, deep=deep)
    for finding in every:
        console.plain(str(finding))
    errors = list(missing_keys(params))
    lock = damaged()
    if lock is not None:
        errors.append(lock)
    try:
        check_packages(code.installed())
    except WsoupError as error:
        errors.append(str(error))
    for text in errors:
        console.plain(f"error: {text}")
    if errors or any(finding.kind == "error" for finding in every):
        raise typer.Exit(1)
    if every:
        console.plain("no errors; next: dvc repro")
    else:
        console.plain("no problems; next: dvc repro")
