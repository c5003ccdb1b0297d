"""Datasets that keep no file per image: webdataset tars, saved Hugging Face datasets, torchvision's own forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from miniature import png, write_huggingface, write_mnist, write_tar, write_tars

from wsoup.core.disk.files import read_bytes
from wsoup.core.errors import DataError, MissingError, ParamsError
from wsoup.datasets import digests, huggingface, torchvision, webdataset
from wsoup.datasets.listing import validated
from wsoup.images.decode import load_rgb

BOTH = ("train", "test")


# ----------------------------------------------------------------------------------------------------- webdataset


@pytest.fixture
def tars(tmp_path: Path) -> Path:
    return write_tars(tmp_path / "tars")


def test_tars_are_listed_member_by_member(tars: Path) -> None:
    found = validated(webdataset.read(str(tars), wanted=BOTH))
    assert found.class_names == ["ant", "red fox"]
    assert found.splits["test"].paths == [
        "test/0.tar/s00.png",
        "test/0.tar/s01.png",
        "test/1.tar/s10.png",
        "test/1.tar/s11.png",
    ]
    assert found.splits["test"].labels.tolist() == [0, 1, 0, 1]


def test_a_member_is_read_and_decoded_in_place(tars: Path) -> None:
    assert read_bytes(f"{tars}/test/1.tar/s10.png") == png(20)
    assert load_rgb(f"{tars}/test/1.tar/s10.png").getpixel((0, 0)) == (20, 20, 20)
    found = digests.of_images(str(tars), ["test/0.tar/s00.png"], origin="x")
    assert found.sizes.tolist() == [len(png(0))]


def test_a_truncated_tar(tars: Path) -> None:
    whole = (tars / "test/1.tar").read_bytes()
    (tars / "test/1.tar").write_bytes(whole[:700])
    with pytest.raises(DataError, match=r"1.tar is (truncated|not a complete, uncompressed).*download it again"):
        webdataset.read(str(tars), wanted=BOTH)


def test_a_compressed_tar(tars: Path) -> None:
    import gzip

    (tars / "test/1.tar").write_bytes(gzip.compress((tars / "test/1.tar").read_bytes()))
    with pytest.raises(DataError, match=r"1.tar is not a complete, uncompressed tar file"):
        webdataset.read(str(tars), wanted=BOTH)


def test_a_missing_shard(tars: Path) -> None:
    (tars / "test/1.tar").unlink()
    with pytest.raises(MissingError, match=r"test has 1 tar files, expected 2; download the others"):
        webdataset.read(str(tars), wanted=BOTH)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.png": png(1)}, r"image 'a.png' has no label; expected a member a.cls"),
        ({"a.png": png(1), "a.cls": b"cat"}, r"a.cls holds 'cat', expected a label number"),
    ],
)
def test_an_image_without_a_label_number(tars: Path, members: dict[str, bytes], message: str) -> None:
    write_tar(tars / "test/1.tar", members)
    with pytest.raises(DataError, match=message):
        webdataset.read(str(tars), wanted=BOTH)


def test_tars_without_class_names(tars: Path) -> None:
    (tars / "classnames.txt").unlink()
    with pytest.raises(MissingError, match=r"classnames.txt does not exist; expected one class name a line"):
        webdataset.read(str(tars), wanted=BOTH)


# ---------------------------------------------------------------------------------------------------- Hugging Face


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return write_huggingface(tmp_path / "saved")


def test_a_saved_dataset_is_listed_row_by_row(saved: Path) -> None:
    found = validated(huggingface.read(str(saved), wanted=("train", "val")))
    assert found.class_names == ["ant", "red fox"]
    assert found.splits["val"].paths[2] == "validation/data-00000-of-00001.arrow/image/2"
    assert found.splits["train"].labels.tolist() == [1, 0, 1]
    assert read_bytes(f"{saved}/{found.splits['val'].paths[2]}") == png(2)


def test_a_single_saved_dataset_is_a_test_split(saved: Path) -> None:
    found = huggingface.read(str(saved / "train"), wanted=("test",))
    assert found.splits["test"].paths[0] == "data-00000-of-00001.arrow/image/0"
    assert read_bytes(f"{saved}/train/{found.splits['test'].paths[0]}") == png(0)


def test_the_library_itself_saves_what_is_read_here(tmp_path: Path) -> None:
    pytest.importorskip("datasets.features")
    import datasets

    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["ant", "bee"])})
    rows = {"image": [{"bytes": png(i), "path": None} for i in range(3)], "label": [0, 1, 1]}
    made = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict({"test": made}).save_to_disk(str(tmp_path / "by_library"))
    found = validated(huggingface.read(str(tmp_path / "saved"), wanted=("test",)))
    assert found.class_names == ["ant", "bee"]
    assert [read_bytes(f"{tmp_path}/by_library/{path}") for path in found.splits["test"].paths] == [
        png(0),
        png(1),
        png(2),
    ]


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_no_label_column(saved: Path) -> None:
    edit(saved / "train/dataset_info.json", features={"image": {"_type": "Image"}})
    with pytest.raises(DataError, match=r"expected one Image and one ClassLabel column, found \['image'\] and \[\]"):
        huggingface.read(str(saved), wanted=BOTH)


def test_rows_behind_an_index(saved: Path) -> None:
    edit(saved / "train/state.json", _indices_data_files=[{"filename": "indices.arrow"}])
    with pytest.raises(DataError, match=r"call flatten_indices\(\) and save it again"):
        huggingface.read(str(saved), wanted=BOTH)


def test_a_truncated_arrow_file(saved: Path) -> None:
    file = saved / "train/data-00000-of-00001.arrow"
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(DataError, match=r"is not a complete Arrow stream file"):
        huggingface.read(str(saved), wanted=BOTH)


def test_nothing_saved(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"holds no dataset saved by `save_to_disk`"):
        huggingface.read(str(tmp_path), wanted=BOTH)


# ----------------------------------------------------------------------------------------------------- torchvision


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    return write_mnist(tmp_path / "torchvision")


def test_images_of_a_run_become_files(mnist: Path) -> None:
    found = validated(torchvision.read("FashionMNIST", root=str(mnist), wanted=BOTH, download=False, class_names=None))
    assert found.class_names[:2] == ["T-shirt/top", "Trouser"]
    assert found.splits["test"].paths[3] == "wsoup-FashionMNIST/test/0000003.png"
    assert found.fetch is not None
    found.fetch([found.splits["test"].paths[3]])
    assert load_rgb(mnist / "wsoup-FashionMNIST/test/0000003.png").getpixel((0, 0)) == (3, 3, 3)
    assert not (mnist / "wsoup-FashionMNIST/test/0000004.png").exists()


def test_a_torchvision_set_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"torchvision CIFAR100 \(\w+\) cannot be read under .*; set download: true"):
        torchvision.read("CIFAR100", root=str(tmp_path), wanted=BOTH, download=False, class_names=None)


def test_a_set_that_torchvision_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"torchvision.datasets has no 'CIFAR1000'"):
        torchvision.read("CIFAR1000", root=str(tmp_path), wanted=BOTH, download=False, class_names=None)


@pytest.mark.parametrize("read", [webdataset.read, huggingface.read])
def test_a_missing_root(tmp_path: Path, read: Callable[..., object]) -> None:
    with pytest.raises(MissingError, match=r"nowhere does not exist or is not a folder"):
        read(str(tmp_path / "nowhere"), wanted=BOTH)
