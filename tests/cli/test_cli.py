"""The command line: exit codes, one-line errors, and every command is documented."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import typer
from project import ROOT
from rich.table import Table
from run_cli import run

import wsoup
from wsoup.cli import app as cli
from wsoup.cli.common import Terminal


def commands(group: typer.Typer, prefix: str = "wsoup") -> list[str]:
    """Full names of all commands."""
    names = [f"{prefix} {command.name or command.callback.__name__}" for command in group.registered_commands]
    for inner in group.registered_groups:
        names += commands(inner.typer_instance, f"{prefix} {inner.name}")
    return names


def test_readme_or_docs_name_every_command():
    text = "".join(path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    assert [name for name in commands(cli.app) if name not in text] == []


def test_help_and_usage_errors():
    assert run("--help")[0] == 0
    assert "params.yaml" in run("profile", "--help")[1]
    assert run("soup", "export")[0] == 2
    assert run("nonsense")[0] == 2
    assert run("--version") == (0, f"wsoup {wsoup.__version__}\n", "")


def test_in_a_pipe_a_table_is_as_wide_as_its_cells(capsys):
    table = Table(box=None, pad_edge=False)
    for title in ("dataset", "reason"):
        table.add_column(title, no_wrap=True)
    table.add_row("photos", "x " * 120)
    Terminal().print(table)
    assert ("x " * 120).strip() in capsys.readouterr().out


def test_the_shell_completes_commands_and_options():
    """As bash asks for it, after `wsoup --install-completion`."""
    asked = {**os.environ, "_WSOUP_COMPLETE": "complete_bash", "COMP_CWORD": "1", "COMP_WORDS": "wsoup cl"}
    wsoup_command = Path(sys.executable).with_name("wsoup")
    words = subprocess.run([wsoup_command], env=asked, capture_output=True, text=True, check=True).stdout.split()
    assert words == ["classify"]
