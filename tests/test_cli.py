"""Facts about the command line: exit codes, one-line errors, and that the README knows every command."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import typer
import yaml
from project import ROOT

from wsoup import cli
from wsoup.params.whole import parse_params
from wsoup.soup import Member, Soup, Step

ENCODER = {"model": "m", "pretrained": "p", "config": "c", "weights": "w", "quick_gelu": False, "precision": "fp32"}


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `wsoup ARGUMENTS`."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr("sys.argv", ["wsoup", *arguments])
        patch.setenv("COLUMNS", "200")
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue(), err.getvalue()


def commands(group: typer.Typer, prefix: str = "wsoup") -> list[str]:
    """Every command by its full name."""
    found = [f"{prefix} {command.name or command.callback.__name__}" for command in group.registered_commands]
    for inner in group.registered_groups:
        found += commands(inner.typer_instance, f"{prefix} {inner.name}")
    return found


def test_the_readme_or_a_page_that_it_points_to_names_every_command():
    told = "".join(path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    assert [name for name in commands(cli.app) if name not in told] == []


def test_help_and_usage_errors():
    assert run("--help")[0] == 0
    assert "params.yaml" in run("profile", "--help")[1]
    assert run("soup", "show")[0] == 2
    assert run("nonsense")[0] == 2


def test_the_demo_profile_is_the_projects_own_params():
    code, printed, _ = run("profile", "demo")
    assert code == 0
    assert printed == (ROOT / "params.yaml").read_text()


@pytest.mark.parametrize("name", ["demo", "methods", "base_to_new"])
def test_profiles_are_good_params(name):
    parse_params(yaml.safe_load(run("profile", name)[1]), origin=name)


def test_a_soup_is_shown_with_how_it_grew(in_tmp: Path):
    member = Member("sharp clean", 74, 100, (Step("sharp", 70), Step("clean", 75)))
    Soup("chains", 1, "a photo of a {}.", ENCODER, (member,)).save("artifacts/soups/word/seed1.json")
    for name in ("artifacts/soups/word/seed1.json", "artifacts/soups/word-seed1.json", "word-seed1"):
        code, printed, _ = run("soup", "show", name)
        assert code == 0
        assert "chains soup, seed 1, 1 members, encoder m/p" in printed
        assert "sharp 70 → clean 75" in printed
        assert "74.00 %" in printed
    assert run("soup", "show", "word-seed1", "--text")[1] == "sharp clean\n"


def test_errors_are_one_line_and_exit_code_1(in_tmp: Path):
    code, printed, errors = run("soup", "show", "word-seed7")
    assert (code, printed) == (1, "")
    assert errors.startswith("error: no soup 'word-seed7'")
    assert errors.count("\n") == 1
