"""The same photo in train and in test, or in two classes, is said before the first run and left out or refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from project import ROOT, call_stage
from run_cli import run
from small_world import COLOURS, write_image_folder
from yaml_in_c import safe_load

from wsoup.base.errors import DataError
from wsoup.disk import store
from wsoup.pipeline.checks import datasets as check_datasets
from wsoup.pipeline.params import load_params
from wsoup.pipeline.profiles.own import own

MANIFEST = Path("artifacts/manifests/photos.parquet")


@pytest.fixture
def photos(in_tmp: Path) -> Path:
    """Photos of four classes, all different, and a params.yaml for them."""
    root = write_image_folder(Path("photos"), splits={"train": 4, "test": 3}, classes=COLOURS)
    Path("params.yaml").write_text(own("photos", encoder={"pretrained": "openai"}).text)
    (in_tmp / "data").mkdir()
    for name in ("photo_descriptors.txt", "nothing_to_watch.txt"):
        shutil.copy(ROOT / "data" / name, in_tmp / "data" / name)
    return root


def edit(**values: object) -> None:
    params = safe_load(Path("params.yaml").read_text())
    params["datasets"]["photos"] |= values
    Path("params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))


def checked() -> list[str]:
    """Warnings of `wsoup check` before the first run."""
    findings = check_datasets.dataset("photos", params=load_params(), deep=False)
    return [finding.text for finding in findings if finding.kind == "warning"]


def prepared(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    """Test images of the manifest, and what the stage printed."""
    call_stage("prepare", "photos")
    rows = store.read_table(MANIFEST).to_pylist()
    return [row["path"] for row in rows if row["split"] == "test"], capsys.readouterr().out


def test_photos_that_differ_are_all_tested_on(photos: Path, capsys) -> None:
    assert checked() == []
    paths, printed = prepared(capsys)
    assert len(paths) == 12
    assert "left out" not in printed
    assert "copies_left_out" not in store.table_attributes(MANIFEST)


@pytest.mark.parametrize("place", ["test/red/9.png", "test/red/more/9.png"])
def test_a_photo_in_train_and_in_test_is_not_tested_on(photos: Path, place: str, capsys) -> None:
    (photos / place).parent.mkdir(exist_ok=True)
    shutil.copy(photos / "train/red/00.png", photos / place)
    (warning,) = [text for text in checked() if "same bytes" in text]
    assert warning.startswith("1 image with the same bytes in train and in test, for example ")
    paths, printed = prepared(capsys)
    assert len(paths) == 12
    assert f"1 test images are left out, since the same photo is also in train: '{place}'" in printed
    assert store.table_attributes(MANIFEST)["copies_left_out"] == 1


def test_a_photo_twice_in_test_is_said(photos: Path, capsys) -> None:
    shutil.copy(photos / "test/red/00.png", photos / "test/red/9.png")
    paths, printed = prepared(capsys)
    assert len(paths) == 13
    assert "1 test images are copies of other test images, and count as often" in printed


def test_a_test_photo_in_two_classes_is_in_neither(photos: Path, capsys) -> None:
    shutil.copy(photos / "test/red/00.png", photos / "test/blue/9.png")
    assert any("1 image with the same bytes under several labels" in text for text in checked())
    paths, printed = prepared(capsys)
    assert not {"test/red/00.png", "test/blue/9.png"} & {*paths}
    assert "2 test images are left out, since the same photo is in two classes" in printed


def test_a_photo_to_learn_from_in_two_classes_is_refused_by_its_files(photos: Path, capsys) -> None:
    shutil.copy(photos / "train/red/00.png", photos / "train/blue/9.png")
    assert any("1 image with the same bytes under several labels" in text for text in checked())
    message = r"train/blue/9.png \(blue\) and train/red/00.png \(red\) are the same photo in two classes"
    with pytest.raises(DataError, match=message):
        call_stage("prepare", "photos")


def test_testing_on_the_split_that_is_learned_from_is_said_and_leaves_out_what_was_seen(photos: Path, capsys) -> None:
    edit(test_split="train")
    assert any("16 images with the same bytes in train and in test" in text for text in checked())
    with pytest.raises(DataError, match=r"no test image is left: 16 test images are left out.* not learned from"):
        call_stage("prepare", "photos")


def test_a_list_that_names_a_path_under_both_splits(photos: Path, capsys) -> None:
    rows = [f"train/{name}/{i:02d}.png,{name},train" for name in COLOURS for i in range(4)]
    rows += [f"test/{name}/{i:02d}.png,{name},test" for name in COLOURS for i in range(3)]
    Path("photos/list.csv").write_text("\n".join(["path,class_name,split", *rows, "train/red/00.png,red,test\n"]))
    edit(layout="manifest:list.csv")
    assert any("1 image with the same bytes in train and in test" in text for text in checked())
    paths, printed = prepared(capsys)
    assert len(paths) == 12
    assert "the same photo is also in train: 'train/red/00.png'" in printed


def test_try_says_that_test_is_a_copy_of_train(photos: Path, tiny_encoder_files) -> None:
    shutil.rmtree(photos / "test")
    shutil.copytree(photos / "train", photos / "test")
    where = [part for name in ("pretrained", "config") for part in (f"--{name}", tiny_encoder_files[name])]
    code, printed, errors = run("try", "photos", *where)
    assert (code, printed) == (1, "")
    assert "16 of 16 photos to test on are copies of photos to learn from, such as photos/test/blue/00.png" in errors
