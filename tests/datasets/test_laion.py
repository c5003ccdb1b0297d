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


def test_unknown_classes_and_missing_images_are_errors(data, tmp_path):
    draw(tmp_path / "folders/unicorn/0.jpg")
    with pytest.raises(DataError, match="not classes of ImageNet: 'unicorn'; expected a wnid, an ImageNet class name"):
        read(data, tmp_path / "folders")
    write_tar(tmp_path / "tars/0.tar", {"a.png": png(1)})
    with pytest.raises(DataError, match=r"image 'a.png' is of class '', none of ImageNet's"):
        read(data, tmp_path / "tars")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no images"):
        read(data, tmp_path / "empty")
    with pytest.raises(MissingError, match="nowhere"):
        read(data, tmp_path / "nowhere")
    with pytest.raises(ParamsError, match="names no folder"):
        read(data, "")
