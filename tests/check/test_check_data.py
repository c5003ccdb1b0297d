"""`wsoup check` on datasets: every fault is named with its file and the next step."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from miniature import build_coop, draw
from PIL import Image
from rich.console import Console

from wsoup.check import data as datacheck
from wsoup.check.data import show
from wsoup.check.whole import Params, parse_params
from wsoup.datasets import manifest
from wsoup.datasets.paper import PAPER
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.images.decode import load_rgb
from wsoup.profiles.paper import paper


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSOUP_CACHE", str(tmp_path / ".cache"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build_coop(tmp_path / "data")


def paper_params(root: Path, **changes: dict[str, Any]) -> Params:
    raw = yaml.safe_load(paper(str(root), without_descriptors=True))
    raw["fewshot"] = {"shots": 2}
    for name, change in changes.items():
        raw["datasets"][name] |= change
        raw["candidates"]["watch"] = change.get("gpt_descriptors", raw["candidates"]["watch"])
    return parse_params(raw, origin="params.yaml")


def look(params: Params, *, manifests: Path = Path("none"), deep: bool = False) -> dict[str, datacheck.Finding]:
    findings = datacheck.check(params, manifests=manifests, decode=load_rgb if deep else None, imagenet_names=list)
    return {finding.name: finding for finding in findings}


def only(params: Params, name: str, **options: Any) -> str:
    """The one problem of a dataset; all others have none."""
    findings = look(params, **options)
    assert [finding.name for finding in findings.values() if finding.problems] == [name]
    (problem,) = findings[name].problems
    return problem


def test_all_15_in_miniature_are_found_but_not_comparable(root: Path) -> None:
    findings = look(paper_params(root), deep=True)
    assert list(findings) == list(PAPER)
    assert not any(finding.problems for finding in findings.values())
    assert findings["imagenet"].n_train in range(6, 10)
    assert {finding.n_test for finding in findings.values()} == {6}
    assert findings["dtd"].expected == 1_692
    assert findings["dtd"].reason == "6 test images, the paper has 1,692"


def test_a_dataset_of_the_papers_size_is_comparable() -> None:
    from wsoup.datasets.paper import comparable

    facts = {"dataset": "textures", "test_split": "test", "n_test": 1_692, "n_classes": 47}
    assert comparable("coop:dtd", template="a photo of a {} texture.", **facts) == (
        True,
        "CoOp's split, 1,692 test images, the authors' template",
    )
    assert comparable("coop:dtd", template="a {}.", **facts) == (
        False,
        "template 'a {}.', the authors' is 'a photo of a {} texture.'",
    )
    assert comparable("imagefolder", template="a {}.", **facts)[0] is False


def test_a_missing_dataset_and_its_watched_file(root: Path) -> None:
    (root / "dtd/split_zhou_DescribableTextures.json").unlink()
    problems = look(paper_params(root))["dtd"].problems
    assert len(problems) == 2
    assert "split_zhou_DescribableTextures.json does not exist; put DTD's split file there" in problems[0]
    assert problems[1].startswith("watch: ")


def test_missing_and_empty_images(root: Path) -> None:
    (root / "eurosat/2750/test_0/image 0.jpg").unlink()
    problem = only(paper_params(root), "eurosat")
    assert "1 of 6 images listed in" in problem
    assert "do not exist: 'eurosat/2750/test_0/image 0.jpg'; unpack the dataset again" in problem
    (root / "eurosat/2750/test_0/image 0.jpg").write_bytes(b"")
    assert "1 images are empty (0 bytes): 'eurosat/2750/test_0/image 0.jpg'; replace or remove them" in only(
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
        (html, "is an HTML page; replace or remove it"),
        (bomb, "is too large to decode safely"),
    ],
)
def test_faults_that_only_decoding_finds(
    root: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None], text: str
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)
    spoil(root / "eurosat/2750/test_0/image 0.jpg")
    assert not any(finding.problems for finding in look(paper_params(root)).values())
    problems = look(paper_params(root), deep=True)["eurosat"].problems
    assert text in problems[0]
    assert "eurosat/2750/test_0/image 0.jpg" in problems[0]


def test_changed_added_and_removed_images_since_the_last_run(root: Path, tmp_path: Path) -> None:
    params = paper_params(root)
    section = params.datasets["imagenet_r"]
    built = manifest.build(
        manifest.read_listing("imagenet_r", params=section, imagenet_names=list),
        name="imagenet_r",
        params=section,
        shots=2,
        seeds=[1],
    )
    store.write_table(tmp_path / "imagenet_r.parquet", built.table, attributes=built.attributes)
    assert not look(params, manifests=tmp_path)["imagenet_r"].problems
    place = root / "imagenet-rendition/imagenet-r/n01440764"
    draw(place / "0.jpeg", size=9)
    draw(place / "7.jpeg")
    (place / "1.jpeg").unlink()
    problem = only(params, "imagenet_r", manifests=tmp_path)
    assert "imagenet_r.parquet: 1 changed, 1 added, 1 removed; run `dvc repro --force --single-item" in problem


def test_too_few_training_images(root: Path) -> None:
    (root / "imagenet/images/train/n01440764/n01440764_0.JPEG").unlink()
    (root / "imagenet/images/train/n01440764/n01440764_1.JPEG").unlink()
    assert "class 'tench' has 1 training images, fewer than fewshot.shots = 2" in only(paper_params(root), "imagenet")


def test_a_class_without_gpt_descriptors(root: Path, tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text('{"dtd class 0": ["a"], "dtd class 1": ["a"]}')
    params = paper_params(root, dtd={"gpt_descriptors": str(tmp_path / "d.json")})
    assert "no descriptors for class 'dtd class 2'" in only(params, "dtd")


def test_class_names_that_differ_only_in_case_are_a_warning(tmp_path: Path) -> None:
    for number, name in enumerate(("Red", "red", "blue")):
        draw(tmp_path / f"mine/test/{name}/{number}.png")
    finding = own_folder(tmp_path / "mine", role="dg")
    assert finding.problems == []
    assert finding.warnings == [
        "class names 'Red', 'red' differ only in upper and lower case, yet are separate classes; if they are one, "
        "merge their images"
    ]


@pytest.mark.parametrize("odd", ["HerbaceousVegetation", "T-shirt", "747-400", "D.C."])
def test_class_names_unlike_a_caption_are_a_warning(odd: str, tmp_path: Path) -> None:
    for name in (odd, "red panda", "owl"):
        draw(tmp_path / f"mine/test/{name}/{name}.png")
    (warning,) = own_folder(tmp_path / "mine", role="dg").warnings
    assert warning.startswith(f"1 of 3 class names are not written as in a caption: {odd!r}; prompts use them as")
    assert warning.endswith("in datasets.mine.class_names")


def test_an_image_in_train_and_test_or_under_two_labels_is_a_warning(tmp_path: Path) -> None:
    for name in ("ant", "bee"):
        for split, number in (("train", 0), ("train", 1), ("test", 2)):
            draw(tmp_path / f"mine/{split}/{name}/{name}{number}.png")
    assert own_folder(tmp_path / "mine").warnings == []
    for copy in ("test/ant/again.png", "test/bee/again.png"):
        (tmp_path / "mine" / copy).write_bytes((tmp_path / "mine/train/ant/ant0.png").read_bytes())
    finding = own_folder(tmp_path / "mine")
    assert finding.problems == []
    assert len(finding.warnings) == 2
    assert "1 images are in train and in test with the same bytes, for example " in finding.warnings[0]
    assert "1 images have several labels with the same bytes, for example " in finding.warnings[1]


def own_folder(root: Path, *, role: str = "source") -> datacheck.Finding:
    raw = yaml.safe_load(paper(str(root), without_descriptors=True))
    raw["fewshot"] = {"shots": 2}
    section = {"role": role, "layout": "imagefolder", "root": str(root), "watch": str(root), "template": "a {}."}
    name = raw["source"] if role == "source" else "mine"
    raw["datasets"][name] = section
    return look(parse_params(raw, origin="params.yaml"), deep=True)[name]


def test_what_is_shown(root: Path) -> None:
    (root / "dtd/split_zhou_DescribableTextures.json").unlink()
    findings = datacheck.check(paper_params(root), manifests=Path("none"), decode=None, imagenet_names=list)
    out = io.StringIO()
    show(findings, Console(file=out, width=80))
    lines = out.getvalue().splitlines()
    assert lines[0].split() == ["dataset", "role", "found", "classes", "train", "test", "paper's", "comparable"]
    assert lines[2].split() == ["caltech101", "xd", "yes", "3", "6", "2,465", "no"]
    assert any(line.split() == ["dtd", "xd", "no", "no"] for line in lines)
    split = f"split from {root}/food-101/split_zhou_Food101.json"
    assert f"food101: {split}; not paper-comparable: 6 test images, the paper has 30,300" in lines
    assert any(line.startswith("error: dtd: ") and "does not exist" in line for line in lines)


def test_features_from_older_packages_are_named_with_the_stage_to_repeat(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    artifacts = Artifacts()
    for name, split, version in (
        ("imagenet", "train", "10.4.0"),
        ("imagenet", "test", "11.0.0"),
        ("dtd", "test", "11.0.2"),
    ):
        features = store.ImageFeatures(np.ones((1, 2)), np.zeros(1), np.zeros(1), {"made_with": {"pillow": version}})
        store.write_features(artifacts.features(name, split=split), features)
    (artifacts.features("sun397", split="test")).mkdir()  # damaged: what reads it says so
    findings = look(paper_params(root))
    assert findings["imagenet"].warnings == [
        "train features were made with pillow 10.4.0, others with 11.0.0; make them again: `dvc repro --force "
        "--single-item embed_train`, then `dvc repro`"
    ]
    assert not any(finding.warnings for name, finding in findings.items() if name != "imagenet")
