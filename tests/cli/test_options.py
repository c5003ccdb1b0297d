"""An option of a command is whole: its function reads it, whatever it is handed to reads it, and a page names it."""

from __future__ import annotations

import re

import pytest
import typer
from half_done import ignored_arguments, of_rooms
from processes import ROOT
from run_cli import commands

from wsoup.cli import app as cli

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


COMMANDS = commands(typer.main.get_command(cli.app))  # type: ignore[arg-type]


@pytest.mark.parametrize("room", ["cli", "api", "photos", "report", "pipeline"])
def test_every_argument_is_read(room: str) -> None:
    """An option that is declared and not handed on, or handed to a function that ignores it, would do nothing."""
    ignored = []
    for path, tree in of_rooms(room):
        for function, argument in ignored_arguments(tree):
            ignored.append(f"{path}: {function}() takes {argument!r} and does not read it; use it, or take it out")
    assert not ignored, "\n".join(ignored)


def paragraphs() -> list[str]:
    """Paragraphs, rows of tables and blocks of code."""
    parts: list[str] = []
    for page in PAGES:
        for part in re.split(r"\n\s*\n|\n(?=\|)", page.read_text(encoding="utf-8")):
            parts.append(" ".join(part.split()))
    return parts


def is_beside(option: str, *, command: str, texts: list[str]) -> bool:
    """Whether a text names an option and its command, whose name may stand without `wsoup`."""
    name = re.compile(rf"\b{command.removeprefix('wsoup ')}\b")
    exactly = re.compile(rf"{option}(?![\w-])")
    return any(name.search(text) and exactly.search(text) for text in texts)


def test_every_option_is_in_the_docs() -> None:
    """Beside its command, or beside another one with the very same option: other commands may mean something else."""
    texts = paragraphs()
    named: dict[tuple[str, str], bool] = {}
    of_commands: dict[tuple[str, str], list[str]] = {}
    for command, known in COMMANDS.items():
        for parameter in known.params:
            option = parameter.opts[0]
            if option.startswith("--") and option != "--help":
                same = (option, getattr(parameter, "help", "") or "")
                named[same] = named.get(same, False) or is_beside(option, command=command, texts=texts)
                of_commands.setdefault(same, []).append(command)
    missing = [
        f"{option} of {', '.join(of_commands[option, about])}"
        for (option, about), is_named in named.items()
        if not is_named
    ]
    assert not missing, f"docs/pipeline.md (the table of commands), or another page of docs/, does not name {missing}"
