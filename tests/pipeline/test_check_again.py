"""A second `wsoup check` imports neither the model's packages nor DVC, and says the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from processes import run_module
from project import ROOT, Project

LOOK = """
import sys
from wsoup.cli.app import app
try:
    app(["check"])
except SystemExit as stop:
    print("exit", stop.code)
heavy = {"torch", "open_clip", "dvc", "zarr", "pyarrow"}
print("loaded", *sorted(heavy & {name.partition(".")[0] for name in sys.modules}))
"""


def check(folder: Path) -> list[str]:
    """What it prints, its exit code, and which heavy packages it loaded."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", LOOK]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True).stdout.splitlines()


def lines_of_check(folder: Path) -> list[str]:
    """What it prints."""
    return run_module("wsoup", "check", folder=folder, root=ROOT)[1].splitlines()


def test_only_what_changed_is_looked_at_again(project: Project):
    first = check(project.folder)
    assert "torch" in first[-1]
    again = check(project.folder)
    assert again[-2:] == ["exit 0", "loaded"]
    assert again[:-2] == first[:-2]
    lock = project.folder / "dvc.lock"
    whole = lock.read_text()
    lock.write_text(whole + "  - path: [")
    cut = check(project.folder)
    lock.write_text(whole)
    assert cut[-2:] == ["exit 1", "loaded dvc"]
    assert any("DVC cannot read dvc.lock" in line for line in cut)


def test_what_needs_no_model_is_said_before_it_is_looked_at(project: Project):
    lines = lines_of_check(project.folder)
    of_model = [i for i, line in enumerate(lines) if line.startswith("encoder: ")]
    assert of_model, lines
    assert max(i for i, line in enumerate(lines) if line.startswith(("photo: ", "dim: ", "other: "))) < min(of_model)


def take_an_image_away(folder: Path) -> None:
    next(folder.glob("dim/test/*/*.png")).unlink()


def hide_a_folder_from_dvc(folder: Path) -> None:
    (folder / "other/test/.dvc").mkdir()


def write_a_photo_of_an_unknown_kind(folder: Path) -> None:
    next(folder.glob("other/test/*")).joinpath("photo.heic").write_bytes(b"1")


CHANGES = {
    hide_a_folder_from_dvc: "makes its folder another project to DVC",
    write_a_photo_of_an_unknown_kind: "convert them to .jpg: 1 .heic",
    take_an_image_away: "dg: ",
}


def test_what_changed_on_disk_is_looked_at_again(project: Project, tmp_path: Path):
    copy = project.copy(tmp_path / "copy").folder
    lines_of_check(copy)
    before = lines_of_check(copy)
    for change, expected in CHANGES.items():
        change(copy)
        after = lines_of_check(copy)
        new = [line for line in after if line not in before]
        assert any(expected in line for line in new), after
        before = after
