"""`wsoup check` on datasets: every fault is named with its file and the next step."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from miniature import build_coop, draw
from PIL import Image
from yaml_in_c import safe_load

from wsoup.datasets import manifest
from wsoup.datasets.few_images import thin_classes
from wsoup.datasets.left_out import left_out
from wsoup.datasets.paper import PAPER
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.params.inputs import DatasetParams
from wsoup.pipeline.checks import datasets as check
from wsoup.pipeline.checks.finding import Finding
from wsoup.pipeline.params import Params, parse_params
from wsoup.pipeline.profiles.paper import Paper


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSOUP_CACHE", str(tmp_path / ".cache"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build_coop(tmp_path / "data")


def paper_params(root: Path, **changes: dict[str, Any]) -> Params:
    raw = safe_load(Paper(str(root)).text())
    raw["fewshot"] = {"shots": 2}
    for name, change in changes.items():
        raw["datasets"][name] |= change
        raw["candidates"]["watch"] = change.get("gpt_descriptors", raw["candidates"]["watch"])
    return parse_params(raw, origin="params.yaml")


def look(params: Params, *, deep: bool = False) -> dict[str, list[Finding]]:
    return {name: [*check.dataset(name, params=params, deep=deep)] for name in params.datasets}


def texts(findings: list[Finding], kind: str) -> list[str]:
    return [finding.text for finding in findings if finding.kind == kind]


def errors(params: Params, *, deep: bool = False) -> list[tuple[str, str]]:
    return [(name, text) for name, found in look(params, deep=deep).items() for text in texts(found, "error")]


def only(params: Params, name: str) -> str:
    """The one problem of a dataset; all others have none."""
    ((about, text),) = errors(params)
    assert about == name
    return text


def test_all_15_in_miniature_are_found_but_not_comparable(root: Path) -> None:
    findings = look(paper_params(root), deep=True)
    assert list(findings) == list(PAPER)
    assert not any(texts(found, "error") for found in findings.values())
    assert texts(findings["food101"], "fact") == [
        "xd: 3 classes, 6 test images; classes 'food101 class 0', 'food101 class 1', 'food101 class 2'",
        f"split from {root}/food-101/split_zhou_Food101.json; "
        "not paper-comparable: 6 test images, the paper has 30,300",
        "its published figure, 88.72 % (accuracy, ViT-B-16 / openai), is of other images: 3 classes instead of 101",
    ]
    assert re.match(r"source: 3 classes, [6-9] of \d+ training images, 6 test", texts(findings["imagenet"], "fact")[0])


def test_a_missing_dataset_and_its_watched_file(root: Path) -> None:
    (root / "dtd/split_zhou_DescribableTextures.json").unlink()
    (_, missing), (_, watched) = errors(paper_params(root))
    assert "split_zhou_DescribableTextures.json does not exist; put DTD's split file there" in missing
    assert watched.startswith("watch: ")


def test_missing_and_empty_images(root: Path) -> None:
    (root / "eurosat/2750/test_0/image 0.jpg").unlink()
    problem = only(paper_params(root), "eurosat")
    assert "1 of 6 images listed in" in problem
    assert "'eurosat/2750/test_0/image 0.jpg'; unpack the dataset again" in problem
    (root / "eurosat/2750/test_0/image 0.jpg").write_bytes(b"")
    assert "1 image of 0 bytes: 'eurosat/2750/test_0/image 0.jpg'; replace or remove them" in only(
        paper_params(root), "eurosat"
    )


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def html(path: Path) -> None:
    path.write_text("<!DOCTYPE html><html>404</html>")


def bomb(path: Path) -> None:
    Image.MAX_IMAGE_PIXELS = 16


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (truncated, "cannot be decoded ("),
        (html, "is not an image of a known format ("),
        (bomb, "decompression bomb"),
    ],
)
def test_faults_that_only_decoding_finds(
    root: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None], text: str
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)
    spoil(root / "eurosat/2750/test_0/image 0.jpg")
    assert errors(paper_params(root)) == []
    problem = next(text for name, text in errors(paper_params(root), deep=True) if name == "eurosat")
    assert text in problem
    assert "eurosat/2750/test_0/image 0.jpg" in problem


def test_changed_added_and_removed_images_since_the_last_run(root: Path, in_tmp: Path) -> None:
    params = paper_params(root)
    section = params.datasets["imagenet_r"]
    built = manifest.build(
        manifest.read_listing("imagenet_r", params=section),
        name="imagenet_r",
        params=section,
        shots=2,
        seeds=[1],
    )
    store.write_table(Artifacts().manifest("imagenet_r"), built.table, attributes=built.attributes)
    assert errors(params) == []
    place = root / "imagenet-rendition/imagenet-r/n01440764"
    draw(place / "0.jpeg", size=9)
    draw(place / "7.jpeg")
    (place / "1.jpeg").unlink()
    problem = only(params, "imagenet_r")
    assert "imagenet_r.parquet: 1 changed, 1 added, 1 removed; run `dvc repro --force --single-item" in problem


def test_a_class_without_gpt_descriptors(root: Path, tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text('{"dtd class 0": ["a"], "dtd class 1": ["a"]}')
    params = paper_params(root, dtd={"gpt_descriptors": str(tmp_path / "d.json")})
    assert "no descriptors for class 'dtd class 2'" in only(params, "dtd")
    named = {"gpt_descriptors": str(tmp_path / "d.json"), "gpt_names": {"dtd class 2": "dtd class 0"}}
    assert errors(paper_params(root, dtd=named)) == []


@pytest.mark.parametrize(
    ("names", "start", "end"),
    [
        *(
            ((odd, "red panda", "owl"), f"1 of 3 class names are not written as in a caption: {odd!r}", "class_names")
            for odd in ("HerbaceousVegetation", "T-shirt", "747-400", "D.C.")
        ),
    ],
)
def test_odd_class_names_are_a_warning(names: tuple[str, ...], start: str, end: str, tmp_path: Path) -> None:
    for number, name in enumerate(names):
        draw(tmp_path / f"mine/test/{name}/{number}.png")
    (warning,) = own_folder(tmp_path / "mine", role="dg")
    assert warning.startswith(start)
    assert warning.endswith(end)


def test_an_image_in_train_and_test_or_under_two_labels_is_a_warning(tmp_path: Path) -> None:
    for name in ("ant", "bee"):
        for split, number in (("train", 0), ("train", 1), ("test", 2)):
            draw(tmp_path / f"mine/{split}/{name}/{name}{number}.png")
    assert own_folder(tmp_path / "mine") == []
    for copy in ("test/ant/again.png", "test/bee/again.png"):
        (tmp_path / "mine" / copy).write_bytes((tmp_path / "mine/train/ant/ant0.png").read_bytes())
    both, several = own_folder(tmp_path / "mine")
    assert "1 image with the same bytes in train and in test, for example " in both
    assert "1 image with the same bytes under several labels, for example " in several


def own_folder(root: Path, *, role: str = "source") -> list[str]:
    """The warnings for a folder of one's own, which has no errors."""
    raw = safe_load(Paper(str(root)).text())
    raw["fewshot"] = {"shots": 2}
    section = {"role": role, "layout": "imagefolder", "root": str(root), "watch": str(root), "template": "a {}."}
    name = raw["source"] if role == "source" else "mine"
    raw["datasets"][name] = section
    findings = [*check.dataset(name, params=parse_params(raw, origin="params.yaml"), deep=True)]
    assert texts(findings, "error") == []
    return texts(findings, "warning")


def test_classes_with_few_images_to_learn_from_or_none_to_test_on_are_named(tmp_path: Path) -> None:
    for name, n_images in (("ant", 2), ("bee", 1), ("cat", 3), ("dog", 4)):
        for number in range(n_images):
            draw(tmp_path / f"mine/train/{name}/{number}.png")
        if name != "ant":
            draw(tmp_path / f"mine/test/{name}/0.png")
    params = DatasetParams(role="source", watch=str(tmp_path / "mine"), template="a {}.")
    listing = manifest.read_listing("mine", params=params)
    few = "fewer than 4 training images, all of which are used, in 3 of 4 classes: 'bee' (1), 'ant' (2), 'cat' (3)"
    none = "no test images, so accuracies say nothing about them: 'ant'"
    assert thin_classes(listing, params=params, shots=4) == [few, none]
    assert thin_classes(listing, params=params, shots=1) == [none]
    assert thin_classes(listing, params=params.model_copy(update={"role": "dg"}), shots=4) == [none]


def test_class_folders_without_photos_are_named(tmp_path: Path) -> None:
    root = tmp_path / "photos"
    for name in ("train/cat/1.jpg", "train/owl/1.heic", "train/dog/1.jpg", "test/dog/1.jpg"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name in ("test/cat", "test/owl", "test/pig"):
        (root / name).mkdir()
    assert left_out(str(root)) == [
        "left out, convert them to .jpg: 1 .heic",
        "left out, since no photo in them can be read: the class folders 'owl', 'pig'",
    ]


def test_photos_that_no_listing_reads_are_counted_and_named(tmp_path: Path) -> None:
    """In class folders of unknown kinds, in the root and beside class folders, in folders beside test/."""
    root = tmp_path / "photos"
    for name in (
        *("test/cat/1.jpg", "test/cat/2.HEIC", "test/cat/more/3.heic", "test/dog/1.jpg", "test/dog/notes.txt"),
        *("root.png", "test/loose.jpg", "mouse/1.jpg", "mouse/2.jpg", "readme/about.md", ".hidden/1.jpg"),
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert left_out(str(root)) == [
        "left out, convert them to .jpg: 2 .heic; no photos: 1 .txt",
        f"left out, move them into class folders: 2 beside them, such as {root}/root.png",
        "left out, only classes in test/ are read: 2 in 'mouse'",
    ]
    assert left_out(str(root / "test")) == [
        "left out, convert them to .jpg: 2 .heic; no photos: 1 .txt",
        f"left out, move them into class folders: 1 beside them, such as {root}/test/loose.jpg",
    ]
    assert left_out(str(root / "mouse")) != [], "pictures without a class folder"
    assert left_out(str(root / "readme")) == []
