"""Stamps of what `wsoup check` looks at: any change below a folder of images is another stamp."""

from __future__ import annotations

from pathlib import Path

import pytest
from project import miniature_params, write_miniature, write_params

from wsoup.pipeline.checks.looked_at import stamps
from wsoup.pipeline.params import load_params

TAG = {"model": "ViT-B-32", "pretrained": "openai", "precision": "fp32", "watch": "pools"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A miniature on which nothing has run."""
    run = tmp_path / "run"
    run.mkdir()
    monkeypatch.chdir(run)
    write_miniature(run, encoder=TAG)
    return run


def seen() -> list[str] | None:
    return stamps(load_params("params.yaml"))


def an_image(folder: Path) -> Path:
    return min(folder.glob("photo/test/*/*.png"))


def write_as_many_bytes(folder: Path) -> None:
    image = an_image(folder)
    image.write_bytes(b"\0" * image.stat().st_size)


def link_to_another(folder: Path) -> None:
    image = an_image(folder)
    image.unlink()
    image.symlink_to(max(folder.glob("photo/test/*/*.png")))


CHANGES = {
    "other bytes, as many": write_as_many_bytes,
    "a link": link_to_another,
    "an image less": lambda folder: an_image(folder).unlink(),
    "a hidden folder": lambda folder: (folder / "photo/test/.dvc").mkdir(),
    "a file beside the classes": lambda folder: (folder / "photo/test/notes.txt").touch(),
    "another text": lambda folder: (folder / "pools/words.txt").write_text("one"),
    "what a run makes": lambda folder: (
        (folder / "artifacts/pools").mkdir(parents=True) or (folder / "artifacts/pools/words.txt").touch()
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_stamp_for(change: str, folder: Path):
    before = seen()
    assert before is not None
    assert before == seen()
    CHANGES[change](folder)
    assert seen() != before


MADE = ("evaluated.json", "manifests/dim.parquet", "embeddings/pretrained/photo-train.zarr", "pools/descriptors.txt")


@pytest.mark.parametrize("made", MADE)
def test_another_stamp_for_each_file_that_an_earlier_run_made(made: str, folder: Path):
    file = folder / "artifacts" / made
    before = seen()
    file.parent.mkdir(parents=True)
    file.write_text("one")
    first = seen()
    file.write_text("two!")
    assert len({str(stamps) for stamps in (before, first, seen())}) == 3


NOT_STAMPED = {
    "images of a list": {"layout": "manifest:photo.csv"},
    "images elsewhere": {"root": "s3://bucket/photo"},
    "images around the run": {"root": "..", "watch": ".."},
    "images that are not there": {"root": "nowhere", "watch": "nowhere"},
}


@pytest.mark.parametrize("what", NOT_STAMPED)
def test_looked_at_every_time(what: str, folder: Path):
    params = miniature_params(TAG)
    params["datasets"]["photo"].update(NOT_STAMPED[what])
    write_params(folder, params)
    assert seen() is None


def test_a_link_that_leads_back_ends(folder: Path):
    (folder / "photo/test/again").symlink_to(folder / "photo")
    assert seen() is not None
