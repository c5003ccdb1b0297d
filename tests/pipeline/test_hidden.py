"""Folders of images that DVC would take for projects of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from project import Project
from small_world import write_image_folder

from wsoup.pipeline.checks.hidden import hidden_from_dvc, replaced_by_dvc


@pytest.fixture
def photos(in_tmp: Path) -> Path:
    return write_image_folder(in_tmp / "photos", splits={"test": 1}, classes={"cat": (9, 9, 9), "dog": (5, 5, 5)})


@pytest.mark.parametrize("place", ["", "test", "test/dog"])
def test_a_dvc_folder_among_images_is_an_error(photos, place):
    (photos / place / ".dvc").mkdir()
    (error,) = hidden_from_dvc(str(photos))
    assert str(error).startswith(f"{photos / place / '.dvc'} makes its folder another project to DVC")
    assert str(error).endswith(f"remove {photos / place / '.dvc'}")


def test_the_run_itself_may_lie_in_the_folder_of_images(photos, monkeypatch):
    (photos / ".dvc").mkdir()
    for folder in (photos, photos / "test"):
        monkeypatch.chdir(folder)
        assert list(hidden_from_dvc(str(photos))) == []


@pytest.mark.parametrize("root", ["none", "s3://bucket/photos"])
def test_what_is_no_folder_here_hides_nothing(in_tmp, root):
    assert list(hidden_from_dvc(root)) == []


IMPORT = "deps:\n- path: /etc/hostname\nouts:\n- path: 00.png\n"


def test_an_import_that_replaces_images_is_named(photos):
    """DVC would write what it names over them. What `dvc add` and `dvc import` leave there does nothing."""
    (photos / "test/dog/x.dvc").write_text(IMPORT)
    (photos / "test/frozen.dvc").write_text(f"frozen: true\n{IMPORT}")
    (photos / "test/added.dvc").write_text("outs:\n- md5: d41d8cd98f00b204e9800998ecf8427e\n  path: dog\n")
    (photos / "broken.dvc").write_text("deps: [")
    (sentence,) = replaced_by_dvc(str(photos))
    assert sentence.startswith(f"{photos}/test/dog/x.dvc is an import of DVC: `dvc repro` replaces files here")
    assert list(replaced_by_dvc("none")) == []


def test_a_run_refuses_images_that_dvc_would_not_watch(project: Project, tmp_path: Path):
    copy = project.copy(tmp_path / "project")
    (copy.folder / "photo/test/red/.dvc").mkdir()
    for command in (["dvc", "repro", "prepare@photo"], ["python", "-m", "wsoup", "check"]):
        printed = copy.run(*command, good=False)
        assert "error: photo/test/red/.dvc makes its folder another project to DVC" in printed


def test_a_pipeline_among_images_is_not_run(project: Project, tmp_path: Path):
    """DVC would run its commands, and remove its outs before."""
    copy = project.copy(tmp_path / "project")
    stages = "stages: {evil: {cmd: touch ../ran, outs: [train]}}"
    for place in ("photo", "photo/train/red"):
        (copy.folder / place / "dvc.yaml").write_text(stages)
    assert copy.repro() == set()
    assert not (copy.folder / "ran").exists()
    assert (copy.folder / "photo/train/red/00.png").exists()
