"""What `wsoup base-to-new` refuses before any run, in one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from processes import ROOT
from project import miniature_params, write_miniature, write_params
from run_cli import run
from yaml_in_c import safe_load


@pytest.fixture
def folder(in_tmp: Path, tiny_encoder_files: dict[str, str]) -> Path:
    """The miniature, which is not in a git repository."""
    write_miniature(in_tmp, encoder=tiny_encoder_files)
    shutil.copy(ROOT / "dvc.yaml", in_tmp)
    shutil.copytree(ROOT / "stages", in_tmp / "stages")
    return in_tmp


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--datasets", "cars"], "--datasets: there is no dataset 'cars'; expected some of photo, other, dim"),
        (["--datasets", "dim, other"], "no dataset can be divided into base and new classes; the lines above say why"),
        (["--out", "page.html"], "--out page.html must end in .md: a file of that name is overwritten"),
        (["--figure", "page.md"], "--figure page.md must end in .svg: a file of that name is overwritten"),
        (["--out", "mine.md"], "--out mine.md exists already; give another name, or --force to replace a file"),
    ],
)
def test_wrong_options_are_one_line_and_nothing_runs(folder, arguments, says):
    (folder / "mine.md").write_text("# My notes")
    code, printed, errors = run("base-to-new", *arguments)
    assert (code, printed) == (1, "")
    assert errors.splitlines()[-1] == f"error: {says}"


def test_a_folder_without_commits_is_told_what_experiments_need(folder):
    code, printed, errors = run("base-to-new")
    assert (code, printed) == (1, "")
    assert "is not in a git repository with a commit, which DVC's experiments need: git init && " in errors


def test_the_papers_datasets_come_from_a_data_root(folder):
    code, _, errors = run("base-to-new", "--data-root", "data")
    assert code == 1
    assert errors == "error: data does not exist or is not a folder; correct --data-root\n"
    (folder / "data").mkdir()
    code, _, errors = run("base-to-new", "--data-root", "data")
    left_out = [line.split(":")[1].strip() for line in errors.splitlines() if line.startswith("left out: ")]
    assert len(left_out) == 11, "the shifts of ImageNet have no training images"
    assert {"imagenet", "ucf101"} < {*left_out}


def test_the_page_of_an_earlier_call_is_replaced(folder, tiny_encoder_files):
    (folder / "base_to_new.md").write_text("# From base to new classes: pets\n")
    params = miniature_params(tiny_encoder_files)
    write_params(folder, params | {"datasets": {name: params["datasets"][name] for name in ("photo", "dim")}})
    _, _, errors = run("base-to-new", "--datasets", "dim")
    assert "exists already" not in errors
    assert safe_load((folder / "params.yaml").read_text())["source"] == "photo", "params.yaml stays"
