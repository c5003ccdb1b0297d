"""A folder that does not divide its images is divided by their content alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from wsoup.base.errors import DataError, ParamsError
from wsoup.datasets import division, manifest
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


def test_a_class_of_two_photographs_keeps_one_on_each_side_and_one_of_a_single_one_learns_from_it(photos):
    """Also where their digests all lie on one side, and whatever copies there are."""
    for name in ("cat", "dog"):
        for path in sorted((photos / name).iterdir())[2:]:
            pair = photos / f"{name} {path.stem}"
            pair.mkdir()
            path.rename(pair / path.name)
            shutil.copy(pair / path.name, pair / "copy.png")
            if path.stem >= "20":
                Image.new("RGB", (4, 4), (int(path.stem), 0, 0)).save(pair / "other.png")
    for fraction in (0.01, 0.5, 0.99):
        sides = splits(photos, fraction=fraction)
        for folder in photos.iterdir():
            n_train, n_test = (sum(path.startswith(f"{folder.name}/") for path in sides[side]) for side in sides)
            n_files = len([*folder.iterdir()])
            if len({path.read_bytes() for path in folder.iterdir()}) == 1:
                assert (n_train, n_test) == (n_files, 0)
            else:
                assert n_train > 0
                assert n_test > 0
                assert n_train + n_test == n_files


@pytest.mark.parametrize("only", ["train", "val", "test"])
def test_a_folder_with_one_of_the_splits_alone_is_divided_like_one_with_none(photos, only):
    before = splits(photos)
    (photos / only).mkdir()
    for name in ("cat", "dog"):
        (photos / name).rename(photos / only / name)
    assert splits(photos) == {side: {f"{only}/{path}" for path in paths} for side, paths in before.items()}


def test_data_with_splits_is_not_divided_again(photos):
    for name in ("cat", "dog"):
        for side in ("train", "val"):
            shutil.copytree(photos / name, photos / side / name)
        shutil.rmtree(photos / name)
    message = "photos is divided into train, val already; a test fraction is for a folder whose images are all in one"
    with pytest.raises(DataError, match=message):
        splits(photos)
    with pytest.raises(DataError, match=message):
        division.sides("photos", fraction=0.3)
    with pytest.raises(ParamsError, match="divides images that are not divided yet; layout 'coop:dtd' has its"):
        splits(photos, layout="coop:dtd")
