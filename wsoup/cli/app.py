"""The command line: each command is a thin call on the library. Results on stdout, errors in one line on stderr.

Heavy modules are imported where a command needs them, so that ``wsoup --help`` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

import wsoup
from wsoup.cli.bench import bench_app
from wsoup.cli.check import check_command, data_app, verify_app
from wsoup.cli.classify import classify_command
from wsoup.cli.options import ParamsFile
from wsoup.cli.output import Terminal
from wsoup.cli.profiles import profile_app
from wsoup.cli.report import compare_command, report_command, results_command, sweep_command
from wsoup.cli.soups import soup_app
from wsoup.cli.trial import try_command
from wsoup.core.errors import not_installed
from wsoup.runtime.process import INTERRUPTED, errors_in_one_line, interruptible, keep_memory, print_anything

app = typer.Typer(
    help="Descriptor and word soups for CLIP-style models. `dvc repro` runs the pipeline; these commands surround it.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
for name, group in {
    "profile": profile_app,
    "data": data_app,
    "soup": soup_app,
    "bench": bench_app,
    "verify": verify_app,
}.items():
    app.add_typer(group, name=name)
COMMANDS: dict[str, Callable[..., None]] = {
    "try": try_command,
    "check": check_command,
    "results": results_command,
    "report": report_command,
    "compare": compare_command,
    "sweep": sweep_command,
    "classify": classify_command,
}
for name, command in COMMANDS.items():
    app.command(name)(command)


def _say_version(asked: bool) -> None:
    if asked:
        print(f"wsoup {wsoup.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Options of wsoup itself; the help is the app's own."""


def main() -> None:
    """Entry point: exit code 0 good, 1 a WsoupError, 2 a usage error, 130 an interrupt."""
    print_anything()
    keep_memory()
    try:
        with errors_in_one_line(), interruptible():
            app()
    except ModuleNotFoundError as error:
        print(f"error: {not_installed(error)}", file=sys.stderr)
        raise SystemExit(1) from None
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            print("interrupted; nothing half-written is left", file=sys.stderr)
        raise


@app.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(help="A new folder, or one that `wsoup init` made before.")],
) -> None:
    """Set up a pipeline folder (dvc.yaml, params.yaml of the toy world, stages, data), or bring one up to date.

    Example: wsoup init soups && cd soups && dvc repro
    """
    from wsoup.pipeline import workspace

    print("\n".join(workspace.create(folder)))


@app.command("packages")
def packages_command(
    accept: Annotated[bool, typer.Option("--accept", help="Record the installed versions.")] = False,
) -> None:
    """Show the packages that decide numbers; exit code 1 where the installed versions are not those of the results.

    After `--accept`, `dvc repro` runs again what the changed ones decide (data/packages.yaml).

    Example: wsoup packages
    """
    from wsoup.core.disk import code
    from wsoup.pipeline import packages

    if accept:
        packages.accept()
    packages.check(code.installed())
    print(f"{packages.VERSIONS}: {', '.join(f'{name} {version}' for name, version in code.installed().items())}")


@app.command("plan")
def plan_command(
    params: ParamsFile = Path("params.yaml"),
    change: Annotated[
        list[str] | None,
        typer.Option("--set-param", "-S", help="Change a param first, as in `dvc exp run`: soups.word.k0=50."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Also estimate for h200, h100, a100, l40s, l4, a10, v100 or t4.")
    ] = None,
    count: Annotated[int, typer.Option(help="How many of those devices.")] = 1,
    candidates: Annotated[int | None, typer.Option(help="Pretend that each pool has so many texts.")] = None,
    images: Annotated[int | None, typer.Option(help="Pretend that there are so many test images.")] = None,
) -> None:
    """See what `dvc repro` would run, what is cached, what it costs, and what breaks first.

    Example: wsoup plan -S soups.word.k0=50 --device h100 --count 8
    """
    from wsoup.pipeline.plan import plan, show

    planned = plan(
        params_file=params, changes=change or [], device=device, count=count, candidates=candidates, images=images
    )
    show(planned, Terminal())


@app.command("cache")
def cache_command(
    prune: Annotated[bool, typer.Option("--prune", help="Remove what no stage can use any more.")] = False,
) -> None:
    """Show what .cache/wsoup keeps of interrupted stages and listed datasets, and whether it can still be used.

    Example: wsoup cache --prune
    """
    from wsoup.pipeline import cache
    from wsoup.pipeline.cache_show import show

    if not prune:
        show(cache.look(), Terminal())
        return
    for line in cache.prune(cache.look()):
        print(line)


if __name__ == "__main__":
    main()
