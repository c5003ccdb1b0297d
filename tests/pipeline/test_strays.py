"""Results of names that params.yaml no longer has: removed only where DVC's cache holds them, and read by no stage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from project import Project
from yaml_in_c import safe_load


@pytest.fixture(scope="module")
def first(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the project without the dataset `other`, the method `ce` and the soup `descriptor`; not yet run."""
    first = project.copy(tmp_path_factory.mktemp("strays") / "first")
    params = safe_load((first.folder / "params.yaml").read_text())
    params["datasets"] = {{"other": "another"}.get(name, name): section for name, section in params["datasets"].items()}
    del params["finetune"]["methods"]["ce"], params["soups"]["descriptor"]
    first.write_params(params)
    return first


def test_what_dvc_does_not_hold_stays_and_is_said(first: Project) -> None:
    """A copy made by hand, and results that were edited."""
    artifacts = first.folder / "artifacts"
    shutil.copytree(artifacts / "soups/word", artifacts / "soups/mine")
    kept = {path: path.read_bytes() for path in (artifacts / "soups/mine").iterdir()}
    for edited in (artifacts / "soups/descriptor/seed1.json", artifacts / "results/ce.parquet"):
        content = edited.read_bytes()
        edited.unlink()  # a link into DVC's cache
        edited.write_bytes(content + b" ")
        kept[edited] = content + b" "
    printed = first.run("dvc", "repro", "--single-item", "candidates", "--force")
    for path in ("soups/descriptor", "results/ce.parquet"):
        line = f"left artifacts/{path}: params.yaml no longer names it, and DVC's cache does not hold it"
        assert printed.count(line) == 1
    assert "mine" not in printed
    assert {path: path.read_bytes() for path in kept} == kept
    for path in ("soups/mine", "soups/descriptor"):
        shutil.rmtree(artifacts / path)
    (artifacts / "results/ce.parquet").unlink()


@pytest.mark.long
def test_a_fresh_clone_is_up_to_date_after_names_changed(project: Project, first: Project, tmp_path: Path) -> None:
    """A dataset renamed, a method and a soup removed: run, committed, cloned, and `dvc status` reports nothing."""
    gone = ("manifests/other.parquet", "embeddings/pretrained/other-test.zarr", "finetuned/ce")
    printed = first.run("dvc", "repro")
    for what in gone:
        assert not (first.folder / "artifacts" / what).exists(), printed
    assert "changed while" not in printed
    first.commit("other names")

    clone = object.__new__(Project)
    clone.folder = tmp_path / "clone"
    first.git("clone", "-q", str(first.folder), str(clone.folder))
    clone.run("dvc", "cache", "dir", "--local", str(first.folder / ".dvc/cache"))
    clone.run("dvc", "checkout")
    assert "up to date" in clone.run("dvc", "status")
    assert "up to date" in first.run("dvc", "status")
    assert clone.repro() == set()

    clone.git("checkout", "-q", "HEAD~1")  # removed artifacts come back from DVC's cache
    clone.run("dvc", "checkout")
    assert (clone.folder / "artifacts/finetuned/ce/seed1").is_dir()
    assert clone.outs() == project.outs()


def test_a_dataset_that_is_taken_out_does_not_fail_the_next_run(project: Project, tmp_path: Path) -> None:
    """Its manifest is removed before the stage that reads all of them looks at its inputs."""
    run = project.copy(tmp_path / "run")
    params = safe_load((run.folder / "params.yaml").read_text())
    del params["datasets"]["other"]
    run.write_params(params)
    printed = run.run("dvc", "repro", "evaluated")
    assert printed.count("removed artifacts/manifests/other.parquet: params.yaml no longer names it (DVC's") == 1


def test_a_lock_file_that_dvc_did_not_write_is_named(project: Project, tmp_path: Path) -> None:
    run = project.copy(tmp_path / "run")
    for text in ("", "[]", "a: [", "<<<<<<< HEAD\nstages:\n=======\n"):
        (run.folder / "dvc.lock").write_text(text)
        printed = run.run("python", "stages", "fewshot", good=False)
        assert printed == "error: dvc.lock is not as DVC writes it; restore it from git\n"
