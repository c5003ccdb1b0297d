"""CoOp's 15 folders in miniature: images, labels and class names of each, and errors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from miniature import WNIDS, build_coop, draw

from wsoup.base.errors import DataError, MissingError, ParamsError
from wsoup.datasets import coop, manifest
from wsoup.datasets.listing import Listing, validated
from wsoup.datasets.paper import PAPER, comparable
from wsoup.params.inputs import DatasetParams

BOTH = ("train", "test")


def read(name: str, root: Path) -> Listing:
    return validated(coop.read(name, root=str(root), wanted=BOTH))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build_coop(tmp_path / "data")


@pytest.mark.parametrize("name", PAPER)
def test_each_of_the_15_is_listed_and_every_listed_image_exists(root: Path, name: str) -> None:
    listing = read(name, root)
    assert len(listing.class_names) == 3
    assert listing.splits["test"].labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert ("train" in listing.splits) == (PAPER[name].role != "dg")
    for split in listing.splits.values():
        assert all((root / path).is_file() for path in split.paths)


def test_the_paper_has_one_source_ten_targets_and_four_shifts() -> None:
    roles = [paper.role for paper in PAPER.values()]
    assert (roles.count("source"), roles.count("xd"), roles.count("dg")) == (1, 10, 4)
    assert sum(paper.n_test for paper in PAPER.values()) == 232_085


def test_names_and_labels_come_from_the_json_file(root: Path) -> None:
    listing = read("caltech101", root)
    assert listing.class_names == ["caltech101 class 0", "caltech101 class 1", "caltech101 class 2"]
    assert listing.splits["train"].paths[0] == "caltech-101/101_ObjectCategories/train_0/image 0.jpg"


def test_the_root_may_be_the_datasets_own_folder(root: Path) -> None:
    listing = read("caltech101", root / "caltech-101")
    assert listing.splits["test"].paths[0] == "101_ObjectCategories/test_0/image 0.jpg"


def test_imagenets_test_images_are_its_validation_images(root: Path) -> None:
    listing = read("imagenet", root)
    assert listing.class_names == ["tench", "goldfish", "great white shark"]
    assert listing.splits["test"].paths[0] == "imagenet/images/val/n01440764/val_n01440764_0.JPEG"


def test_imagenet_v2_folders_are_sorted_as_numbers(tmp_path: Path) -> None:
    names = [f"class {i}" for i in range(12)]
    for label in range(12):
        draw(tmp_path / "imagenetv2/imagenetv2-matched-frequency-format-val" / str(label) / "1.jpeg")
    lines = (f"n{label:02d} {name}" for label, name in reversed([*enumerate(names)]))  # in any order
    (tmp_path / "imagenetv2/classnames.txt").write_text("\n".join(lines))
    listing = read("imagenetv2", tmp_path)
    assert listing.class_names == names
    assert [Path(path).parent.name for path in listing.splits["test"].paths] == [str(i) for i in range(12)]


def test_a_subset_of_imagenet_has_its_own_labels_in_folder_order(root: Path) -> None:
    folder = root / "imagenet-adversarial/imagenet-a/n01443537"
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    listing = read("imagenet_a", root)
    assert listing.class_names == ["tench", "great white shark"]
    assert listing.splits["test"].labels.tolist() == [0, 0, 1, 1]


def test_shifts_use_imagenets_class_list_where_they_have_none(root: Path) -> None:
    (root / "imagenet-rendition/classnames.txt").unlink()
    assert read("imagenet_r", root).class_names == ["tench", "goldfish", "great white shark"]


def test_imagenet_may_repeat_a_class_name(root: Path) -> None:
    (root / "imagenet/classnames.txt").write_text("n01440764 missile\nn01443537 missile\nn01484850 tights\n")
    assert read("imagenet", root).class_names == ["missile", "missile", "tights"]


# ---------------------------------------------------------------------------------------------------------- LAION


def laion(root: Path, images: Path | str) -> DatasetParams:
    about = {"role": "source", "root": str(root), "watch": str(root), "template": "a photo of a {}."}
    return DatasetParams(layout=f"laion:{images}", **about)


@pytest.mark.parametrize("below_common_root", [True, False])
def test_laion_is_trained_on_folders_by_wnid_and_tested_on_imagenet(root: Path, tmp_path_factory, below_common_root):
    images = root.parent / "images" if below_common_root else tmp_path_factory.mktemp("images")
    for wnid in WNIDS:
        for i in range(3):
            draw(images / wnid / f"{wnid}_{i}.jpg")
    params = laion(root, images)
    listing = manifest.read_listing("laion", params=params)
    assert listing.class_names == ["tench", "goldfish", "great white shark"]
    train, test = listing.split("train"), listing.split("test")
    assert (train.labels.tolist(), test.labels.tolist()) == ([0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 0, 1, 1, 2, 2])
    assert all((Path(listing.root) / path).is_file() for path in (*train.paths, *test.paths))
    built = manifest.build(listing, name="laion", params=params, shots=2, seeds=[1, 2])
    assert built.attributes["reason"] == "6 test images, the paper has 50,000"


def test_laion_without_images_or_with_other_classes(root: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    draw(tmp_path / "odd/unicorn/0.jpg")
    for images, kind, message in (
        (tmp_path / "empty", MissingError, "empty has no folders of classes; sort"),
        (tmp_path / "odd", DataError, "classnames.txt has no line for folder 'unicorn'"),
        (tmp_path / "nowhere", MissingError, "nowhere does not exist"),
        ("", ParamsError, "'laion:' is not a layout; expected .*laion:IMAGES"),
    ):
        with pytest.raises(kind, match=message):
            manifest.read_listing("laion", params=laion(root, images))


# -------------------------------------------------------------------------------------------------------- refused


def flatten(root: Path) -> None:
    """Put ImageNet's validation images into one folder, as its archive holds them."""
    for file in sorted((root / "imagenet/images/val").glob("*/*")):
        file.rename(root / "imagenet/images/val" / file.name)
        if not any(file.parent.iterdir()):
            file.parent.rmdir()


FAULTS: dict[str, tuple[str, Callable[[Path], object], type[Exception], str]] = {
    "unknown name": ("cub", lambda root: None, ParamsError, r"layout 'coop:cub': expected one of imagenet, caltech101"),
    "no split file": (
        "dtd",
        lambda root: (root / "dtd/split_zhou_DescribableTextures.json").unlink(),
        MissingError,
        r"dtd/split_zhou_DescribableTextures.json does not exist; .* so none is made",
    ),
    "no folder": (
        "food101",
        lambda root: shutil.rmtree(root / "food-101"),
        MissingError,
        r"food-101 does not exist; Food101 is expected there",
    ),
    "no images": (
        "imagenet_r",
        lambda root: shutil.rmtree(root / "imagenet-rendition/imagenet-r"),
        MissingError,
        r"imagenet-r does not exist; ImageNet-R's class folders are expected there",
    ),
    "no list of aircraft": (
        "fgvc_aircraft",
        lambda root: (root / "fgvc_aircraft/images_variant_test.txt").unlink(),
        MissingError,
        r"images_variant_test.txt does not exist; it comes with FGVC-Aircraft",
    ),
    "unknown aircraft": (
        "fgvc_aircraft",
        lambda root: (root / "fgvc_aircraft/images_variant_test.txt").write_text("1001 Concorde\n"),
        DataError,
        r"images_variant_\*.txt: class 'Concorde' is not in the list of classes; add it",
    ),
    "unsorted validation images": (
        "imagenet",
        flatten,
        MissingError,
        r"imagenet/images/val has no folders of classes; sort ImageNet's images into folders by wnid",
    ),
    "no class names": (
        "imagenet_r",
        lambda root: [(root / name / "classnames.txt").unlink() for name in ("imagenet-rendition", "imagenet")],
        MissingError,
        r"imagenet/classnames.txt does not exist; expected one line per class: folder, a space, class name",
    ),
    "a number missing": (
        "imagenetv2",
        lambda root: next((root / "imagenetv2").glob("*/1")).rename(root / "imagenetv2/1"),
        DataError,
        r"folders must be numbered 0 to 2, as .*imagenetv2/classnames.txt has classes",
    ),
    "fewer numbers than names": (
        "imagenetv2",
        lambda root: next((root / "imagenetv2").glob("*/2")).rename(root / "imagenetv2/2"),
        DataError,
        r"folders must be numbered 0 to 2, as .*imagenetv2/classnames.txt has classes",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(root: Path, fault: str) -> None:
    name, spoil, kind, message = FAULTS[fault]
    spoil(root)
    with pytest.raises(kind, match=message):
        read(name, root)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "CoOp's split, 1,692 test images, the authors' template"),
        ({"template": "a photo of a {c} texture."}, "CoOp's split, 1,692 test images, the authors' template"),
        ({"test_split": "val"}, "test_split: val, the paper's is test"),
        ({"n_test": 9}, "9 test images, the paper has 1,692"),
        ({"n_classes": 9}, "9 classes, the paper has 47"),
        ({"template": "a {}."}, "template 'a {}.', the authors' is 'a photo of a {} texture.'"),
        ({"layout": "imagefolder"}, "not one of the paper's datasets in CoOp's layout"),
    ],
)
def test_what_is_comparable_with_the_paper(values: dict, reason: str) -> None:
    usual = {"template": "a photo of a {} texture.", "test_split": "test", "n_test": 1692, "n_classes": 47}
    verdict = comparable(**({"layout": "coop:dtd", "dataset": "mine"} | usual | values))
    assert verdict == (reason.startswith("CoOp's split"), reason)
