"""The `wsoup` command: results go to stdout, errors to stderr in one line.

Commands on a pipeline folder (`init`, `packages`, `plan`, `cache`) are here, all others in modules of their own. Heavy
modules are imported inside commands, so that ``wsoup --help`` answers at once.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

import wsoup
from wsoup.base.errors import not_installed
from wsoup.cli import report
from wsoup.cli.base_to_new import base_to_new_command
from wsoup.cli.check import check_command
from wsoup.cli.common import Terminal, require_pipeline_folder, say
from wsoup.cli.models import models_command
from wsoup.cli.photos import classify_command, try_command
from wsoup.cli.profiles import profile_app
from wsoup.cli.shots import shots_command
from wsoup.cli.soups import soup_app
from wsoup.cli.texts import texts_app
from wsoup.cli.verify import verify_app
from wsoup.runtime.ending import INTERRUPTED, errors_in_one_line, interruptible
from wsoup.runtime.memory import keep_memory
from wsoup.runtime.terminal import print_anything

app = typer.Typer(
    help="Descriptor and word soups for CLIP-style models. `dvc repro` runs the pipeline; these commands surround it.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
GROUPS = {"profile": profile_app, "soup": soup_app, "texts": texts_app, "verify": verify_app}
COMMANDS: dict[str, Callable[..., None]] = {
    "try": try_command,
    "models": models_command,
    "check": check_command,
    "results": report.results_command,
    "report": report.report_command,
    "compare": report.compare_command,
    "shots": shots_command,
    "base-to-new": base_to_new_command,
    "classify": classify_command,
}
for name, group in GROUPS.items():
    app.add_typer(group, name=name)
for name, command in COMMANDS.items():
    app.command(name)(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"wsoup {wsoup.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options of wsoup itself; the help text is that of `app`."""


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
    folder: Annotated[Path, typer.Argument(help="A new folder, or one made by an earlier `wsoup init`.")],
) -> None:
    """Set up a pipeline folder (dvc.yaml, params.yaml of the toy world, stages, data), or update one.

    Example: wsoup init soups && cd soups && dvc repro
    """
    from wsoup.pipeline.folder import create

    print(*create(folder), sep="\n")


@app.command("repro", context_settings={"ignore_unknown_options": True})
def repro_command(
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Stages and options, as `dvc repro --help` lists them.")
    ] = None,
) -> None:
    """Run `dvc repro`, so that stages start in a second, not in five.

    They are forked from one process, which imports torch once. Elsewhere than on Linux this is `dvc repro` itself.

    Example: wsoup repro report
    """
    require_pipeline_folder()
    import dvc  # noqa: F401  # said in one line where it is not installed

    from wsoup.pipeline.checks.watched import missing_watches
    from wsoup.pipeline.params import load_params
    from wsoup.runtime import fork_server

    # A key that dvc.yaml needs would else be missed in DVC's words, and any other one by the first stage.
    if Path("params.yaml").is_file():
        # Only said, since the stages that were asked for may not need it; DVC itself names no key.
        say(missing_watches(load_params("params.yaml")))

    environment = {**os.environ, **fork_server.start()}
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", "dvc", "repro", *(arguments or [])], environment)


@app.command("packages")
def packages_command(
    accept: Annotated[bool, typer.Option("--accept", help="Record the installed versions.")] = False,
) -> None:
    """List the packages whose version can change results.

    Exits with 1 if the installed versions are not the recorded ones.

    After `--accept`, `dvc repro` repeats the stages that depend on changed packages (data/packages.yaml).

    Example: wsoup packages
    """
    from wsoup.disk import code, store
    from wsoup.pipeline.packages import VERSIONS, check_packages, versions_yaml

    installed = code.installed()
    if accept:
        store.write_bytes(VERSIONS, versions_yaml(installed).encode())
    check_packages(installed)
    listed = ", ".join(f"{name} {version}" for name, version in installed.items())
    print(f"{VERSIONS}: {listed}")


@app.command("plan")
def plan_command(
    device: Annotated[
        str | None,
        typer.Option(help="Estimate hours on one h200, h100, a100, l40s, l4 or t4, instead of this machine."),
    ] = None,
    devices: Annotated[int, typer.Option(min=1, help="How many of them share the shards of each stage.")] = 1,
) -> None:
    """Show what `dvc repro` would run, and about how long each stage takes (to a factor of two).

    Example: wsoup plan --device h100 --devices 8
    """
    require_pipeline_folder()
    from wsoup.params.reading import read_yaml

    # A missing file is said before a missing package.
    read_yaml("params.yaml")
    from wsoup.pipeline.planning.plan import plan, show

    stages, notes = plan(device=device, devices=devices)
    show(stages, notes, console=Terminal())


@app.command("cache")
def cache_command(
    prune: Annotated[bool, typer.Option("--prune", help="Remove what no stage can use any more.")] = False,
) -> None:
    """Show what .cache/wsoup holds, with sizes, and what no stage can use any more.

    Example: wsoup cache --prune
    """
    require_pipeline_folder()
    from wsoup.pipeline import cache

    entries = cache.look()
    lines = cache.prune(entries) if prune else cache.shown(entries)
    for line in lines:
        print(line)


if __name__ == "__main__":
    main()
