"""`wsoup try` and a pipeline of `wsoup profile own` on the same photos: the same images, soup, names and sentence."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from project import ROOT, call_stage
from run_cli import run
from small_world import COLOURS, write_image_folder
from yaml_in_c import safe_load

from wsoup.core.soup import Soup
from wsoup.disk import store
from wsoup.photos import trial
from wsoup.photos.labelled import look

CLASSES = {"redRose_easy": COLOURS["red"], "green_tea": COLOURS["green"], "01-blue": COLOURS["blue"]}
WORDS = 70
"""In place of 10,000, which the pipeline would rank for minutes."""
PHOTOS = Path("photos")


@pytest.fixture
def where(in_tmp, tiny_encoder_files, monkeypatch) -> list[str]:
    """The options that name the encoder."""
    monkeypatch.setenv("WSOUP_DEVICE", "cpu")
    monkeypatch.setattr(trial, "COMMON_WORDS", WORDS)
    options = ("pretrained", "config", "interpolation")
    return [part for name in options for part in (f"--{name}", tiny_encoder_files[name])]


def profiled(where: list[str]) -> str:
    """Write params.yaml for the photos, with less to compute; returns what the command said."""
    shutil.copytree(ROOT / "data", "data", ignore=shutil.ignore_patterns("toy"))
    shutil.copy(ROOT / "dvc.yaml", "dvc.yaml")
    code, _, errors = run("profile", "own", "--images", "photos", *where, "--out", "params.yaml")
    assert code == 0, errors
    params = safe_load(Path("params.yaml").read_text())
    params["candidates"]["words"]["count"] = WORDS
    # Neither is asked: they would only cost time.
    params["soups"] = {"sample": params["soups"]["sample"]}
    params["evaluate"] |= {"baseline_m": 2, "survey": {"descriptors": 2, "chains": 2, "chain_length": 2, "m": 2}}
    params["landscape"]["soup"] = "sample"
    Path("params.yaml").write_text(yaml.safe_dump(params))
    return errors


def repro() -> None:
    """The stages that lead to the answer, in this process."""
    for stage, item in (
        ("prepare", "photos"),
        ("fewshot", None),
        ("embed", "photos"),
        ("embed_train", None),
        ("candidates", None),
        ("evaluated", None),
        ("score", "words"),
        ("soup", "sample"),
        ("head", "ridge"),
        ("head", "means"),
        ("evaluate", None),
        ("survey", None),
        ("report", None),
    ):
        call_stage(stage, *[item] if item else [])


# ------------------------------------------------------------------------------------------------------- the answer


def few_test_photos() -> None:
    write_image_folder(PHOTOS, splits={"train": 6, "test": 4}, classes=CLASSES)


def many_test_photos() -> None:
    write_image_folder(PHOTOS, splits={"train": 6, "test": 40}, classes=CLASSES)


def classes_of_many_sizes() -> None:
    """Class folders alone: two large ones, one of 5 photos, one of a single photo and one without any."""
    write_image_folder(PHOTOS, splits={".": 60}, classes=CLASSES)
    keep(PHOTOS / "green_tea", 5)
    only = write_image_folder(Path("others"), splits={".": 1}, classes={"white": COLOURS["white"]})
    (only / "white").rename(PHOTOS / "white")
    (PHOTOS / "violet").mkdir()


@pytest.mark.parametrize("make", [few_test_photos, many_test_photos, classes_of_many_sizes])
def test_both_name_the_same_row_in_the_same_words(make, where):
    make()
    # So that not all are right.
    wrong = sorted(PHOTOS.rglob("green_tea/00.png"))[0]
    wrong.rename(wrong.parent.parent / "redRose_easy/odd.png")
    code, tried, errors = run("try", "photos", *where)
    assert code == 0, errors
    *rows, _, sentence, _ = tried.splitlines()
    held_out = r"\((\d+) of (\d+)( held out)?\)"
    rows = [row for row in rows if re.search(held_out, row)]
    profiled(where)
    repro()

    names = [line.split("\t")[1] for line in Path("tried/classes.txt").read_text().splitlines()]
    assert names[:3] == ["blue", "green tea", "red rose"]
    soup = Soup.load("artifacts/soups/sample/seed1.json")
    assert (soup.kind, soup.texts) == ("sample", Soup.load("tried/soup.json").texts)
    assert ("judged on" in sentence) == (make is not many_test_photos)
    printed = run("results")[1]
    assert sentence in " ".join(printed.split())
    assert [row[: trial.WIDTH].strip() for row in rows] == [line[:23].strip() for line in printed.splitlines()[-5:]]
    metrics = json.loads(Path("reports/metrics.json").read_text())
    counts = [re.search(held_out, row) for row in rows]
    accuracies = [round(100 * int(count[1]) / int(count[2]), 2) for count in counts]
    keys = ("class_name", "templates", "soup", "means", "head")
    assert [metrics[key]["source"] for key in keys] == accuracies


# ------------------------------------------------------------------------------------------------------- the images


def keep(folder: Path, number: int) -> None:
    for path in sorted(folder.iterdir())[number:]:
        path.unlink()


def only_train() -> None:
    write_image_folder(PHOTOS, splits={"train": 40}, classes=CLASSES)


def only_test() -> None:
    write_image_folder(PHOTOS, splits={"test": 8}, classes=CLASSES)


def train_and_val() -> None:
    write_image_folder(PHOTOS, splits={"train": 20, "val": 3}, classes=CLASSES)


def three_splits() -> None:
    """Only val/ has a class of white photos, which is therefore no class of either."""
    write_image_folder(PHOTOS, splits={"train": 20, "val": 3, "test": 2}, classes=CLASSES)
    write_image_folder(PHOTOS, splits={"val": 3}, classes={"white": COLOURS["white"]})


def unequal_classes() -> None:
    write_image_folder(PHOTOS, splits={"train": 30, "test": 2}, classes=CLASSES)
    keep(PHOTOS / "train/green_tea", 2)


def train_beside_an_empty_test() -> None:
    write_image_folder(PHOTOS, splits={"train": 20}, classes=CLASSES)
    (PHOTOS / "test/green_tea").mkdir(parents=True)


def pairs_of_photos() -> None:
    """Classes of two photos: by digests alone, some would have both on one side."""
    classes = {f"class {i}": (20 * i, 250 - 20 * i, 100) for i in range(12)}
    write_image_folder(PHOTOS, splits={".": 2}, classes=classes)
    shutil.copy(PHOTOS / "class 0/00.png", PHOTOS / "class 0/copy.png")


FOLDERS = [
    classes_of_many_sizes,
    only_train,
    only_test,
    train_and_val,
    three_splits,
    unequal_classes,
    train_beside_an_empty_test,
    pairs_of_photos,
]


@pytest.mark.parametrize("make", FOLDERS)
def test_both_learn_from_the_same_images_and_are_judged_on_the_same(make: Callable[[], None], where):
    make()
    looked_at = look("photos", shots=16, seed=1, template="a photo of a {}.", classes=None)
    profiled(where)
    call_stage("prepare", "photos")
    call_stage("fewshot")
    manifest = Path("artifacts/manifests/photos.parquet")
    assert store.table_attributes(manifest)["class_names"] == looked_at.class_names
    learnt = store.read_table(Path("artifacts/splits/photos/seed1.parquet")).to_pydict()
    tested = [row for row in store.read_table(manifest).to_pylist() if row["split"] == "test"]
    paths = learnt["path"] + [row["path"] for row in tested]
    assert [str(PHOTOS / path) for path in paths] == looked_at.paths
    assert learnt["label"] + [row["label"] for row in tested] == looked_at.labels.tolist()
    assert len(learnt["path"]) == looked_at.n_train
    assert {*learnt["label"]} == {*range(len(looked_at.class_names))}, "each class has something to learn from"


def test_both_say_what_is_left_out_and_how_photos_are_divided(where, capsys):
    classes_of_many_sizes()
    empty = "left out, since no photo in them can be read: the class folders 'violet'"
    _, _, of_try = run("try", "photos", *where)
    of_profile = profiled(where)
    capsys.readouterr()
    call_stage("prepare", "photos")
    of_pipeline = (capsys.readouterr().out, run("check")[1])
    for said in (of_try, of_profile, *of_pipeline):
        assert empty in said
    for said in (of_try, *of_pipeline):
        assert "no test images, so accuracies say nothing about them: 'white'" in said
    for said in (of_try, of_profile):
        assert "photos has no train/ and test/: about 50 % of the photos of each class are for testing" in said
    shutil.rmtree(PHOTOS)
    train_and_val()
    for command in (["try", "photos"], ["profile", "own", "--images", "photos"]):
        assert "photos has no test/: the photos in val/ are for testing" in run(*command, *where, "--force")[2]


def test_both_refuse_a_folder_that_names_nothing_to_learn_from(where):
    write_image_folder(PHOTOS, splits={"val": 2, "test": 2}, classes=CLASSES)
    for command in (["try", "photos"], ["profile", "own", "--images", "photos"]):
        code, _, errors = run(*command, *where)
        assert code == 1
        assert "photos has val/ and test/, but no train/ to learn from; rename val/ to train/" in errors


def test_both_refuse_classes_of_one_photo_each(where):
    write_image_folder(PHOTOS, splits={".": 1}, classes=CLASSES)
    profiled(where)
    for said in (run("try", "photos", *where)[2], run("check")[1]):
        assert "no class has two images that differ, so that none is left to test on; add some" in said
