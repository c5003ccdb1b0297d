"""The end of a first run says whether it worked; what was run is said first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from wsoup.disk import store
from wsoup.report.first_run import worked
from wsoup.report.ran import what_was_run
from wsoup.report.record import FILE, Record

TOY = {
    "datasets": {
        "shapes": {"role": "source", "watch": "data/toy/world/shapes"},
        "counts": {"role": "xd", "watch": "data/toy/world/counts"},
    },
    "encoder": {"model": "toy-clip", "pretrained": "data/toy/encoder/toy-clip.safetensors"},
}
PHOTOS = {
    "datasets": {"photos": {"role": "source", "watch": "photos/list.csv", "root": "photos"}},
    "encoder": {"model": "ViT-B-32", "pretrained": "openai"},
}


def record(params: dict, *, source: float, images: dict[str, int] | None = None) -> Record:
    rows = [{"row": "class name", "source": 45.8}, {"row": "word soup", "source": source}]
    about = {"soup": "word", "mode": "centroid", "members": [], "rows": {}, "answer": []}
    return Record(accuracy=rows, params=params, images=images or {}, **about)


@pytest.fixture
def commit(tmp_path: Path):
    """Commits a record in a new repository, whose folder is returned."""

    def committed(value: Record) -> Path:
        store.write_json(tmp_path / FILE, value.model_dump())
        for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "as shipped"]):
            user = ["-c", "user.name=a", "-c", "user.email=a@b"]
            subprocess.run(["git", *user, *command], cwd=tmp_path, check=True)
        return tmp_path

    return committed


@pytest.mark.parametrize(
    ("ours", "line"),
    [
        (53.57, "worked: word soup on the source 53.6 % (committed: 53.6 %; another CPU moves it by up to 1)"),
        (52.62, "worked: word soup on the source 52.6 % (committed: 53.6 %; another CPU moves it by up to 1)"),
        (54.6, "worked: word soup on the source 54.6 % (committed: 53.6 %; another CPU moves it by up to 1)"),
        (
            52.5,
            "not as committed: word soup on the source 52.5 % (committed: 53.6 %; another CPU moves it by up to 1); "
            "`wsoup packages` lists packages of other versions",
        ),
    ],
)
def test_a_first_run_of_the_toy_world_ends_with_whether_it_worked(ours, line, commit):
    folder = commit(record(TOY, source=53.57))
    assert worked(record(TOY, source=ours), root=folder) == [line]


def test_edited_params_and_other_data_have_no_such_line(commit, tmp_path):
    assert worked(record(TOY, source=53.6), root=tmp_path) == [], "nothing is committed"
    folder = commit(record(TOY, source=53.57))
    edited = {**TOY, "seeds": [1]}
    assert worked(record(edited, source=53.6), root=folder) == []
    assert worked(record(PHOTOS, source=53.6), root=folder) == []


def test_what_was_run_is_data_number_of_images_and_encoder():
    toy = record(TOY, source=50.0, images={"shapes": 1000, "counts": 300})
    assert what_was_run(toy) == (
        "Run on 1,300 test images of 2 datasets, drawn by wsoup (the toy world): no evidence for or against soups. "
        "Encoder: toy-clip / data/toy/encoder/toy-clip.safetensors."
    )
    photos = record(PHOTOS, source=50.0, images={"photos": 40})
    assert what_was_run(photos) == "Run on 40 test images of dataset photos. Encoder: ViT-B-32 / openai."
    assert what_was_run(record(PHOTOS, source=50.0)) == (
        "Run on test images of dataset photos. Encoder: ViT-B-32 / openai."
    ), "an older record has no numbers"
