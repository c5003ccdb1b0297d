"""CoOp's 15 folders in miniature: images, labels and class names of each, and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from miniature import WNIDS, build_coop, draw

from wsoup.base.errors import DataError, MissingError, ParamsError
from wsoup.datasets import coop
from wsoup.datasets.listing import Listing, validated
from wsoup.datasets.paper import PAPER

BOTH = ("train", "test")


def no_names() -> list[str]:
    raise AssertionError("classnames.txt gives the names")


def read(name: str, root: Path, *, names: Callable[[], list[str]] = no_names) -> Listing:
    return validated(coop.read(name, root=str(root), wanted=BOTH, imagenet_names=names))


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
    listing = read("imagenetv2", tmp_path, names=lambda: names)
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


def test_plain_layout_coop_means_the_datasets_name_or_folder() -> None:
    assert coop.name_of("dtd", root="/data") == "dtd"
    assert coop.name_of("textures", root="/data/dtd") == "dtd"
    with pytest.raises(
        ParamsError, match=r"datasets.mine: layout 'coop' cannot tell which dataset this is; write 'coop:NAME'"
    ):
        coop.name_of("mine", root="/data")


# -------------------------------------------------------------------------------------------------------- refused


def test_an_unknown_name(root: Path) -> None:
    with pytest.raises(ParamsError, match=r"layout 'coop:cub': expected one of imagenet, caltech101"):
        read("cub", root)


def test_a_missing_split_file_is_named_and_never_replaced(root: Path) -> None:
    (root / "dtd/split_zhou_DescribableTextures.json").unlink()
    with pytest.raises(
        MissingError, match=r"dtd/split_zhou_DescribableTextures.json does not exist; .* so none is made"
    ):
        read("dtd", root)


def test_a_missing_dataset_folder(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"food-101 does not exist; Food101 is expected there"):
        read("food101", tmp_path)


def test_a_missing_aircraft_list(root: Path) -> None:
    (root / "fgvc_aircraft/images_variant_test.txt").unlink()
    with pytest.raises(MissingError, match=r"images_variant_test.txt does not exist; it comes with FGVC-Aircraft"):
        read("fgvc_aircraft", root)


def test_imagenets_validation_images_without_folders_of_classes(root: Path) -> None:
    for wnid in WNIDS:
        for file in (root / "imagenet/images/val" / wnid).iterdir():
            file.rename(root / "imagenet/images/val" / file.name)
        (root / "imagenet/images/val" / wnid).rmdir()
    with pytest.raises(
        MissingError, match=r"imagenet/images/val has no folders of classes; sort ImageNet's images into"
    ):
        read("imagenet", root)


def test_an_aircraft_of_an_unknown_variant(root: Path) -> None:
    (root / "fgvc_aircraft/images_variant_test.txt").write_text("1001 Concorde\n")
    with pytest.raises(
        DataError, match=r"images_variant_\*.txt: class 'Concorde' is not in the list of classes; add it"
    ):
        read("fgvc_aircraft", root)


def test_200_folders_without_class_names(root: Path) -> None:
    for name in ("imagenet-rendition", "imagenet"):
        (root / name / "classnames.txt").unlink()
    with pytest.raises(
        MissingError, match=r"classnames.txt does not exist, and 3 folders are not ImageNet's 1,000 classes"
    ):
        read("imagenet_r", root, names=lambda: ["x"] * 1000)
