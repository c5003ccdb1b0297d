"""Leftovers of earlier params in folders that are deps are removed, so that a fresh clone is up to date."""

from __future__ import annotations

from pathlib import Path

import yaml
from project import Project

from wsoup.disk.artifacts import Artifacts

MADE = {
    "manifests": ["photo.parquet", "old.parquet"],
    "embeddings/pretrained/photo-train.zarr": ["zarr.json"],
    "embeddings/pretrained/photo-test.zarr": ["zarr.json"],
    "embeddings/pretrained/old-test.zarr": ["zarr.json"],
    "embeddings/pretrained/other-train.zarr": ["zarr.json"],
    "embeddings/pretrained/other-test.zarr": ["zarr.json"],
    "soups": ["upper_bound.json"],
    "soups/class_name": ["seed1.json"],
    "soups/word": ["seed1.json", "seed2.json"],
    "soups/word_k50": ["seed1.json", "seed2.json"],
    "finetuned/ce/seed1": ["weights.safetensors"],
    "finetuned/old/seed1": ["weights.safetensors"],
    "results": ["ce.parquet", "old.parquet"],
    "results/pretrained": ["results.parquet", "texts.parquet", "flips.parquet"],
    "results/landscape": ["ce.parquet", "old.parquet"],
    "heads/mine": ["seed1.safetensors"],
    "heads/old": ["seed1.safetensors"],
    "results/heads": ["mine.parquet", "old.parquet"],
}
NOT_OURS = {
    "manifests": ["notes.txt", "old.parquet.bak", ".old.parquet.1-ab.tmp"],
    "embeddings/pretrained/kept-test.zarr": ["notes.txt"],
    "embeddings/tuned/old-test.zarr": ["zarr.json"],
    "soups": ["mine.json"],
    "soups/mine": ["seed1.json", "notes.txt"],
    "finetuned/mine/seed1": ["a"],
    "finetuned/mine": ["notes.txt"],
    "results/backup": ["old.parquet"],
    "scores": ["old.parquet"],
}
PARAMS = {
    "source": "photo",
    "datasets": ["photo", "other"],
    "soups": ["word"],
    "methods": ["ce"],
    "landscapes": ["ce"],
    "heads": ["mine"],
}


def fill(root: Path, files: dict[str, list[str]]) -> None:
    for folder, names in files.items():
        (root / "artifacts" / folder).mkdir(parents=True, exist_ok=True)
        for name in names:
            (root / "artifacts" / folder / name).touch()


def test_strays_are_artifacts_that_params_no_longer_name(tmp_path: Path) -> None:
    assert list(Artifacts(tmp_path).strays(**PARAMS)) == []
    fill(tmp_path, MADE)
    strays = {str(path.relative_to(tmp_path / "artifacts")): why for path, why in Artifacts(tmp_path).strays(**PARAMS)}
    assert strays == {
        "manifests/old.parquet": "params.yaml names no dataset 'old'",
        "embeddings/pretrained/old-test.zarr": "params.yaml names no dataset 'old'",
        "embeddings/pretrained/other-train.zarr": "params.yaml names no source 'other'",
        "soups/word_k50": "params.yaml names no soup 'word_k50'",
        "finetuned/old": "params.yaml names no method 'old'",
        "results/old.parquet": "params.yaml names no method 'old'",
        "results/landscape/old.parquet": "params.yaml names no landscape of method 'old'",
        "heads/old": "params.yaml names no head 'old'",
        "results/heads/old.parquet": "params.yaml names no head 'old'",
    }


def test_files_that_no_stage_wrote_are_left_alone(tmp_path: Path) -> None:
    fill(tmp_path, NOT_OURS)
    (tmp_path / "elsewhere/seed1").mkdir(parents=True)
    (tmp_path / "artifacts/finetuned/linked").symlink_to(tmp_path / "elsewhere")
    assert list(Artifacts(tmp_path).strays(**PARAMS)) == []


def test_a_fresh_clone_is_up_to_date_after_names_changed(project: Project, tmp_path: Path) -> None:
    """A dataset renamed, a method and a soup removed: run, committed, cloned, and `dvc status` reports nothing."""
    first = project.copy(tmp_path / "first")
    params = yaml.safe_load((first.folder / "params.yaml").read_text())
    params["datasets"] = {{"other": "another"}.get(name, name): section for name, section in params["datasets"].items()}
    del params["finetune"]["methods"]["ce"], params["soups"]["descriptor"]
    first.write_params(params)
    printed = first.run("dvc", "repro")
    for what, why in {
        "manifests/other.parquet": "dataset 'other'",
        "embeddings/pretrained/other-test.zarr": "dataset 'other'",
        "soups/descriptor": "soup 'descriptor'",
        "finetuned/ce": "method 'ce'",
        "results/ce.parquet": "method 'ce'",
    }.items():
        line = f"removed artifacts/{what}: params.yaml names no {why} (DVC's cache still has it)\n"
        assert printed.count(line) == 1
        assert not (first.folder / "artifacts" / what).exists()
    assert printed.count("removed artifacts/") == 5
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
