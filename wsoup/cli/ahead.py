"""`wsoup ahead`: the work of several stages beforehand, on all devices at once."""

from typing import Annotated

import typer

from wsoup.cli.common import Terminal, require_pipeline_folder


def ahead_command(
    stages: Annotated[
        list[str] | None,
        typer.Argument(help="Stages, such as finetune, 'soup@w*' or evaluate_tuned@coop (default: all with shards)."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes on this machine (default: one per GPU; without GPUs cores / threads)."),
    ] = None,
) -> None:
    """Compute the shards of several stages as one pool of work; `dvc repro` then reads them.

    On this machine, or with WSOUP_EXECUTOR=ray on a Ray cluster. Run it again after a kill: it goes on.

    Example: wsoup ahead finetune evaluate_tuned
    """
    require_pipeline_folder()
    from wsoup.params.reading import read_yaml

    # A missing file is said before a missing package.
    read_yaml("params.yaml")
    from wsoup.disk import code
    from wsoup.pipeline.ahead import compute
    from wsoup.pipeline.ahead_stages import find
    from wsoup.pipeline.code_file import check_own_wsoup
    from wsoup.pipeline.packages import check_packages

    console = Terminal()
    check_own_wsoup("ahead")
    check_packages(code.installed())
    todo = find(stages or [])
    computed = 0
    for line in compute(todo, workers=workers):
        computed += 1
        console.plain(line)
    for name, first in todo.waiting.items():
        console.plain(f"{name} is left: {', '.join(first[:3])} must run before it")
    if computed:
        console.plain(f"{computed} shards computed; next: dvc repro")
    elif todo.waiting and not todo.stages:
        console.plain(f"nothing can be computed yet; next: dvc repro {' '.join(todo.first)}")
    else:
        console.plain("nothing to compute: all shards that can be computed now are there; next: dvc repro")
