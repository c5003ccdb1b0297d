"""LAION as the source: folders or tars by ImageNet class, tested on ImageNet in CoOp's folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from miniature import WNIDS, build_coop, draw, png, write_tar

from wsoup.base.errors import DataError, MissingError, ParamsError
from wsoup.datasets import manifest
from wsoup.params.inputs import DatasetParams

NAMES = list(WNIDS.values())


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return build_coop(tmp_path_factory.mktemp("laion") / "data", train=1, test=2)


def section(data: Path, images: Path | str) -> DatasetParams:
    about = {"role": "source", "root": str(data), "watch": str(data), "template": "a photo of a {}."}
    return DatasetParams(layout=f"laion:{images}", **about)


def read(data: Path, images: Path | str):
    return manifest.read_listing("laion", params=section(data, images), imagenet_names=lambda: NAMES)


@pytest.mark.parametrize("below_common_root", [True, False])
def test_folders_are_named_by_wnid_class_name_or_label(data, tmp_path, below_common_root):
    images = (data.parent if below_common_root else tmp_path) / f"images{below_common_root}"
    for folder in ("n01440764", "goldfish", "2"):
        for i in range(3):
            draw(images / folder / f"{i}.jpg")
    listing = read(data, images)
    assert listing.class_names == [name.replace("_", " ") for name in NAMES]
    train, test = listing.split("train"), listing.split("test")
    assert sorted(train.labels.tolist()) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert all((Path(listing.root) / path).is_file() for path in (*train.paths, *test.paths))
    assert all(("goldfish" in path) == (label == 1) for path, label in zip(train.paths, train.labels, strict=True))
    assert len(test.paths) == 6
    built = manifest.build(listing, name="laion", params=section(data, images), shots=2, seeds=[1, 2])
    assert built.table.num_rows >= 6 + 6
    assert built.attributes["reason"] == "6 test images, the paper has 50,000"


def test_tars_name_the_class_in_a_cls_member_or_a_folder(data, tmp_path):
    members = {"a.png": png(1), "a.cls": b"1\n", "b.jpg": png(2), "b.cls": b"great white shark"}
    write_tar(tmp_path / "tars/train/00000.tar", members | {"n01440764/c.png": png(3), "c.txt": b"a caption"})
    listing = read(data, tmp_path / "tars")
    train = listing.split("train")
    assert [path.rpartition("/")[2] for path in train.paths] == ["a.png", "b.jpg", "c.png"]
    assert train.labels.tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.png": png(1)}, "image 'a.png' is of class '', none of ImageNet's"),
        ({"unicorn/a.png": png(1)}, "image 'unicorn/a.png' is of class 'unicorn', none of ImageNet's"),
        ({"a.png": png(1), "a.cls": b"3"}, "of class '3', none of ImageNet's; expected a wnid, an ImageNet class name"),
        ({"a.png": png(1), "a.cls": b"-1"}, "of class '-1'"),
        ({"a.png": png(1), "a.cls": b""}, "of class ''"),
        ({"a.png": png(1), "a.cls": b"\xff" * 100_000}, "of class '\ufffd{40}', none"),
        ({"n01440764/a.png": png(1), "n01440764/a.cls": b"tenches"}, "of class 'tenches'"),  # the .cls counts
        ({"../n01440764/../a.png": png(1)}, "is of class '..'"),
        ({"n01440764/a\udcff.png": png(1)}, "is not a UTF-8 name"),
        ({"n01440764/a.txt": b"a caption"}, "holds no images"),
        ({}, "holds no images"),
    ],
)
def test_a_tar_with_hostile_members_is_one_line(data, tmp_path, members, message):
    write_tar(tmp_path / "tars/0.tar", members)
    with pytest.raises(DataError, match=message) as error:
        read(data, tmp_path / "tars")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000


def test_unknown_classes_and_missing_images_are_errors(data, tmp_path):
    draw(tmp_path / "folders/unicorn/0.jpg")
    with pytest.raises(DataError, match="not classes of ImageNet: 'unicorn'; expected a wnid, an ImageNet class name"):
        read(data, tmp_path / "folders")
    with pytest.raises(MissingError, match="nowhere"):
        read(data, tmp_path / "nowhere")
    with pytest.raises(ParamsError, match="names no folder"):
        read(data, "")


@pytest.mark.parametrize(("name", "label"), [("missile", None), ("1", 1), ("n01484850", 2), ("Tench", 0)])
def test_a_name_of_two_classes_names_none(tmp_path, name, label):
    """ImageNet has two classes called missile; label numbers and wnids tell them apart."""
    root = build_coop(tmp_path / "data", train=1, test=1)
    (root / "imagenet/classnames.txt").write_text("n01440764 tench\nn01443537 missile\nn01484850 missile\n")
    write_tar(tmp_path / "tars/0.tar", {f"{name}/a.png": png(1)})
    if label is None:
        with pytest.raises(DataError, match="is of class 'missile', none of ImageNet's"):
            read(root, tmp_path / "tars")
    else:
        assert read(root, tmp_path / "tars").split("train").labels.tolist() == [label]
