"""A folder of classes without a split is divided by the content of its images alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from wsoup.base.errors import DataError, ParamsError
from wsoup.datasets import manifest
from wsoup.params.inputs import DatasetParams

TEMPLATE = "a photo of a {}."


@pytest.fixture
def photos(in_tmp: Path) -> Path:
    """Two classes of forty images each, all different."""
    rng, root = np.random.default_rng(0), Path("photos")
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
        for number in range(40):
            Image.fromarray(rng.integers(256, size=(4, 4, 3), dtype=np.uint8)).save(root / name / f"{number:02d}.png")
    return root


def splits(root: Path, *, fraction: float = 0.3, role: str = "source", layout: str = "imagefolder") -> dict[str, set]:
    params = DatasetParams(
        role=role, layout=layout, root=str(root), watch=str(root), template=TEMPLATE, test_fraction=fraction
    )
    sides = manifest.read_listing("photos", params=params)
    return {name: set(split.paths) for name, split in sides.splits.items()}


def test_about_the_fraction_is_for_testing_and_every_image_is_in_one_split(photos):
    sides = splits(photos)
    assert len(sides["train"]) + len(sides["test"]) == 80
    assert not sides["train"] & sides["test"]
    assert 15 <= len(sides["test"]) <= 33  # 24 on average
    assert splits(photos, fraction=0.5)["test"] > sides["test"]  # a larger share holds the smaller one


def test_an_image_keeps_its_split_when_others_are_added_or_removed(photos):
    before = splits(photos)
    (photos / "cat/00.png").unlink()
    for number in range(20):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(photos / f"dog/new{number}.png")
    after = splits(photos)
    for name in ("train", "test"):
        assert before[name] - {"cat/00.png"} <= after[name]


def test_copies_of_a_photograph_are_in_the_same_split(photos):
    for name in ("cat", "dog"):
        for path in sorted((photos / name).iterdir()):
            shutil.copy(path, path.with_name(f"copy-{path.name}"))
    for paths in splits(photos).values():
        assert len(paths) % 2 == 0


def test_data_with_splits_is_not_divided_again(photos):
    (photos / "train").mkdir()
    for name in ("cat", "dog"):
        (photos / name).rename(photos / "train" / name)
    with pytest.raises(DataError, match="photos is divided into train already; test_fraction is for a folder of"):
        splits(photos)
    with pytest.raises(ParamsError, match="test_fraction divides an imagefolder without a split; layout 'huggingface'"):
        splits(photos, layout="huggingface")


def test_a_folder_that_holds_nothing_but_test_images_is_divided_already(in_tmp: Path) -> None:
    for name in ("cat", "dog"):
        (in_tmp / "photos/test" / name).mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(in_tmp / "photos/test" / name / "1.png")
    with pytest.raises(
        DataError, match=r"photos is divided into test already; test_fraction is for a folder of classes"
    ):
        splits(Path("photos"))
