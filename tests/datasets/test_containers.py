"""Layouts without a file per image: webdataset tars, saved Hugging Face datasets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from miniature import png, write_huggingface, write_tar, write_tars

from wsoup.base.errors import DataError, MissingError
from wsoup.datasets import containers, digests
from wsoup.datasets.listing import validated
from wsoup.disk.members import read_bytes
from wsoup.images.decode import load_rgb

BOTH = ("train", "test")


# ----------------------------------------------------------------------------------------------------- webdataset


@pytest.fixture
def tars(tmp_path: Path) -> Path:
    return write_tars(tmp_path / "tars")


def test_tar_members_are_listed(tars: Path) -> None:
    listing = validated(containers.read_webdataset(str(tars), wanted=BOTH))
    assert listing.class_names == ["ant", "red fox"]
    assert listing.splits["test"].paths == [
        "test/0.tar/s00.png",
        "test/0.tar/s01.png",
        "test/1.tar/s10.png",
        "test/1.tar/s11.png",
    ]
    assert listing.splits["test"].labels.tolist() == [0, 1, 0, 1]


def test_a_tar_member_is_read_and_decoded_without_unpacking(tars: Path) -> None:
    assert read_bytes(f"{tars}/test/1.tar/s10.png") == png(20)
    assert load_rgb(f"{tars}/test/1.tar/s10.png").getpixel((0, 0)) == (20, 20, 20)
    listing = digests.of_images(str(tars), ["test/0.tar/s00.png"], origin="x")
    assert listing.sizes.tolist() == [len(png(0))]


def test_a_truncated_tar(tars: Path) -> None:
    complete = (tars / "test/1.tar").read_bytes()
    (tars / "test/1.tar").write_bytes(complete[:700])
    with pytest.raises(DataError, match=r"1.tar is (truncated|not a complete, uncompressed).*download it again"):
        containers.read_webdataset(str(tars), wanted=BOTH)


def test_a_compressed_tar(tars: Path) -> None:
    import gzip

    (tars / "test/1.tar").write_bytes(gzip.compress((tars / "test/1.tar").read_bytes()))
    with pytest.raises(DataError, match=r"1.tar is not a complete, uncompressed tar file"):
        containers.read_webdataset(str(tars), wanted=BOTH)


def test_a_missing_shard(tars: Path) -> None:
    (tars / "test/1.tar").unlink()
    with pytest.raises(MissingError, match=r"test has 1 tar files, expected 2; download the others"):
        containers.read_webdataset(str(tars), wanted=BOTH)


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
        containers.read_webdataset(str(tars), wanted=BOTH)


def test_tars_without_class_names(tars: Path) -> None:
    (tars / "classnames.txt").unlink()
    with pytest.raises(MissingError, match=r"classnames.txt does not exist; expected one class name per line"):
        containers.read_webdataset(str(tars), wanted=BOTH)


# ---------------------------------------------------------------------------------------------------- Hugging Face


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return write_huggingface(tmp_path / "saved")


def test_rows_of_a_saved_dataset_are_listed(saved: Path) -> None:
    listing = validated(containers.read_huggingface(str(saved), wanted=("train", "val")))
    assert listing.class_names == ["ant", "red fox"]
    assert listing.splits["val"].paths[2] == "validation/data-00000-of-00001.arrow/image/2"
    assert listing.splits["train"].labels.tolist() == [1, 0, 1]
    assert read_bytes(f"{saved}/{listing.splits['val'].paths[2]}") == png(2)


def test_a_single_saved_dataset_is_a_test_split(saved: Path) -> None:
    listing = containers.read_huggingface(str(saved / "train"), wanted=("test",))
    assert listing.splits["test"].paths[0] == "data-00000-of-00001.arrow/image/0"
    assert read_bytes(f"{saved}/train/{listing.splits['test'].paths[0]}") == png(0)


def test_a_dataset_saved_by_the_library_itself_is_read(tmp_path: Path) -> None:
    pytest.importorskip("datasets.features")
    import datasets

    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["ant", "bee"])})
    rows = {"image": [{"bytes": png(i), "path": None} for i in range(3)], "label": [0, 1, 1]}
    saved = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict({"test": saved}).save_to_disk(str(tmp_path / "by_library"))
    listing = validated(containers.read_huggingface(str(tmp_path / "saved"), wanted=("test",)))
    assert listing.class_names == ["ant", "bee"]
    assert [read_bytes(f"{tmp_path}/by_library/{path}") for path in listing.splits["test"].paths] == [
        png(0),
        png(1),
        png(2),
    ]


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_no_label_column(saved: Path) -> None:
    edit(saved / "train/dataset_info.json", features={"image": {"_type": "Image"}})
    with pytest.raises(DataError, match=r"expected one Image and one ClassLabel column, found \['image'\] and \[\]"):
        containers.read_huggingface(str(saved), wanted=BOTH)


def test_a_filtered_dataset_with_unflattened_indices(saved: Path) -> None:
    edit(saved / "train/state.json", _indices_data_files=[{"filename": "indices.arrow"}])
    with pytest.raises(DataError, match=r"call flatten_indices\(\) and save it again"):
        containers.read_huggingface(str(saved), wanted=BOTH)


def test_a_truncated_arrow_file(saved: Path) -> None:
    file = saved / "train/data-00000-of-00001.arrow"
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(DataError, match=r"is not a complete Arrow stream file"):
        containers.read_huggingface(str(saved), wanted=BOTH)


def test_nothing_saved(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"holds no dataset saved by `save_to_disk`"):
        containers.read_huggingface(str(tmp_path), wanted=BOTH)
