"""What a command prints as data is data alone, in a pipe and in a file, whatever libraries and other programs print."""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from processes import ROOT, run_code
from run_cli import run
from small_world import COLOURS, write_image_folder
from yaml_in_c import safe_load

from wsoup.runtime.terminal import printing_to_stderr

NOISY = """
import importlib, os, subprocess, sys
module, function, *arguments = sys.argv[1:]
owner = importlib.import_module(module)
quiet = getattr(owner, function)
def noisy(*given, **options):
    print("a library says hello")
    os.write(1, b"and its C code, too\\n")
    subprocess.run(["echo", "so does a program that it runs"], check=True)
    return quiet(*given, **options)
setattr(owner, function, noisy)
from wsoup.cli.app import main
sys.argv = ["wsoup", *arguments]
main()
"""
"""Runs `wsoup ARGUMENTS`, where a function that the command calls prints in the three ways there are."""


def rows_of(text: str) -> list[dict[str, str]]:
    """Rows of CSV, each with a cell for every column."""
    rows = list(csv.DictReader(io.StringIO(text), strict=True))
    assert rows
    assert all(None not in row and None not in row.values() for row in rows)
    return rows


class Case(NamedTuple):
    """A command that prints data.

    Attributes:
        arguments: of `wsoup`.
        noisy: a function that it calls, with its module.
        first_line: of what it prints.
        parse: reads what it prints.
    """

    arguments: Sequence[str]
    noisy: tuple[str, str]
    first_line: str
    parse: Callable[[str], object]


CASES = {
    "classify": Case(
        ["classify", "new", "--soup", "class_name", "--classes", "red,green", "--params", "params.yaml"],
        ("wsoup.photos.files", "find_photos"),
        "path,status,class,probability,class_2,probability_2",
        rows_of,
    ),
    "models": Case(
        ["models", "ViT-B-32"],
        ("wsoup.pipeline.checks.downloads", "tags_here"),
        "model,pretrained,parameters_millions,gflops,imagenet,average_of_38,downloaded",
        rows_of,
    ),
    "soup export": Case(
        ["soup", "export", "paper:word", "--format", "clip_benchmark"],
        ("wsoup.cli.soups", "load"),
        "{",
        json.loads,
    ),
    "profile own": Case(
        ["profile", "own", "--images", "photo"],
        ("wsoup.pipeline.profiles.own", "own"),
        "# yaml-language-server: $schema=data/params.schema.json",
        safe_load,
    ),
}


@pytest.fixture
def world(in_tmp: Path, tiny_encoder_files: dict[str, str]) -> Path:
    write_image_folder(Path("photo"), splits={"train": 2, "test": 1}, classes=COLOURS)
    write_image_folder(Path("new"), splits={"x": 1}, classes=COLOURS)
    params = safe_load((ROOT / "params.yaml").read_text()) | {"encoder": tiny_encoder_files}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    return in_tmp


@pytest.mark.parametrize("name", CASES)
def test_data_is_alone_in_a_pipe_and_in_a_file(name: str, world: Path):
    case = CASES[name]
    arguments = [*case.noisy, *case.arguments]
    if name == "classify":
        code, errors = run_code(NOISY, *arguments, folder=world, out="out.txt")
        printed = Path("out.txt").read_text(encoding="utf-8")
    else:
        reading, writing = os.pipe()
        with open(reading, encoding="utf-8") as pipe:
            code, errors = run_code(NOISY, *arguments, folder=world, out=f"/proc/{os.getpid()}/fd/{writing}")
            os.close(writing)
            printed = pipe.read()
    assert code == 0, errors
    assert printed.splitlines()[0] == case.first_line
    case.parse(printed)
    for noise in ("a library says hello", "and its C code, too", "so does a program that it runs"):
        assert noise in errors


def test_all_that_is_printed_in_the_block_goes_to_stderr(capfd):
    print("before")
    with printing_to_stderr():
        print("within")
        os.write(1, b"written\n")
        subprocess.run(["echo", "by a program"], check=True)
    print("after")
    assert capfd.readouterr() == ("before\nafter\n", "within\nwritten\nby a program\n")


def test_stdout_is_there_again_after_an_error(capfd):
    def fails() -> None:
        with printing_to_stderr():
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        fails()
    print("after")
    assert capfd.readouterr().out == "after\n"


def test_an_error_leaves_stdout_empty(in_tmp):
    code, printed, errors = run("classify", "nothing", "--soup", "class_name", "--classes", "a,b")
    assert (code, printed) == (1, "")
    assert errors.startswith("error: ")


def starts_other_programs(path: Path) -> bool:
    """Whether a module runs a program whose output nobody catches."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("subprocess.run", "subprocess.Popen", "os.system"):
            caught = {keyword.arg for keyword in node.keywords} & {"capture_output", "stdout"}
            if not caught:
                return True
    return False


def test_only_experiments_start_programs_that_print():
    """Their commands work in a block of `printing_to_stderr`."""
    paths = [path for path in (ROOT / "wsoup").rglob("*.py") if starts_other_programs(path)]
    assert [path.name for path in paths] == ["experiments.py"]
