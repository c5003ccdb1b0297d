"""`wsoup check` as a command: its exit code, and what its options hand on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from processes import ROOT
from project import miniature_params, write_miniature, write_params
from run_cli import run

from wsoup.disk import code
from wsoup.pipeline import packages


@pytest.fixture
def folder(in_tmp: Path, tiny_encoder_files: dict[str, str]) -> Path:
    """A pipeline folder with the miniature's images, where fewer images than shots are all that is said."""
    shutil.copy(ROOT / "dvc.yaml", "dvc.yaml")
    packages.VERSIONS.parent.mkdir()
    packages.VERSIONS.write_text(packages.versions_yaml(code.installed()))
    write_miniature(in_tmp, encoder=tiny_encoder_files)
    params = miniature_params(tiny_encoder_files)
    params["fewshot"]["shots"] = 100
    write_params(in_tmp, params)
    return in_tmp


def test_the_exit_code_is_1_after_an_error_and_0_after_warnings(folder: Path) -> None:
    exit_code, printed, _ = run("check")
    assert exit_code == 0
    assert "photo: fewer than 100 training images, all of which are used" in printed
    assert printed.endswith("no errors; next: dvc repro\n")
    shutil.rmtree("dim")
    exit_code, printed, _ = run("check")
    assert exit_code == 1
    assert "error: dim: watch: dim does not exist; name a file or folder for `dvc repro` to watch" in printed
    assert "next: dvc repro" not in printed


def test_a_mistyped_folder_is_missed_once_with_the_nearest_one(
    folder: Path, tiny_encoder_files: dict[str, str]
) -> None:
    params = miniature_params(tiny_encoder_files)
    params["datasets"]["dim"] |= {"watch": str(folder / "dimm"), "verify": True}
    params["datasets"]["dim"].pop("root", None)
    write_params(folder, params)
    _, printed, _ = run("check")
    line = f"dim: watch: {folder}/dimm does not exist; did you mean {folder}/dim?"
    assert [text for text in printed.splitlines() if text.startswith("error")] == [f"error: {line}"]


def test_an_image_that_is_cut_off_is_found_by_deep_alone(folder: Path) -> None:
    image = min(folder.glob("photo/test/*/*.png"))
    data = image.read_bytes()
    image.write_bytes(data[: len(data) * 2 // 3])
    assert run("check")[0] == 0
    exit_code, printed, _ = run("check", "--deep")
    assert exit_code == 1
    assert f"{image.relative_to(folder)} " in printed
