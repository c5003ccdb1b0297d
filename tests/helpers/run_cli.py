"""Run `wsoup` in this process, as a user would."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

import click
import pytest
import typer

from wsoup.cli import app as cli

WSOUP = typer.main.get_command(cli.app)
"""All commands, built once: typer takes 0.05 s for it at each call of `cli.app`."""


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `wsoup ARGUMENTS`."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(cli, "app", WSOUP)
        patch.setattr("sys.argv", ["wsoup", *arguments])
        patch.setenv("COLUMNS", "200")
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue(), err.getvalue()


def commands(group: click.Group, prefix: str = "wsoup") -> dict[str, click.Command]:
    """Every command of a group and of the groups below it, by its whole name."""
    by_name: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            by_name |= commands(command, f"{prefix} {name}")  # type: ignore[arg-type]
        else:
            by_name[f"{prefix} {name}"] = command
    return by_name
