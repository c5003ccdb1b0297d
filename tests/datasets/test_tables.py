"""Lists of images: CSV, Parquet and JSON give the same listing; and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from wsoup.base.errors import DataError, MissingError
from wsoup.datasets import tables
from wsoup.datasets.listing import Listing, validated

ROWS = [
    {"path": "b.png", "label": 1, "class_name": "red_fox", "split": "train"},
    {"path": "a.png", "label": 0, "class_name": "zebra", "split": "train"},
    {"path": "c/c.png", "label": 1, "class_name": "red_fox", "split": "test"},
    {"path": "d.png", "label": 0, "class_name": "zebra", "split": "validation"},
    {"path": "e.png", "label": 0, "class_name": "zebra", "split": "test"},
]


def read(root: Path, file: str, *, class_names: Path | None = None) -> Listing:
    names = None if class_names is None else str(class_names)
    return validated(tables.read(file, root=str(root), wanted=("train", "test"), class_names=names))


def write(root: Path, text: str, *, name: str = "list.csv") -> Path:
    (root / name).write_text(text)
    return root


@pytest.mark.parametrize("suffix", ["csv", "parquet", "json"])
def test_all_formats_give_the_same_listing(tmp_path: Path, suffix: str) -> None:
    table = pa.Table.from_pylist(ROWS)
    file = tmp_path / f"list.{suffix}"
    if suffix == "csv":
        pa_csv.write_csv(table, file)
    elif suffix == "parquet":
        pq.write_table(table, file)
    else:
        file.write_text(json.dumps(ROWS))
    listing = read(tmp_path, file.name)
    assert listing.class_names == ["zebra", "red fox"]
    assert sorted(listing.splits) == ["test", "train"]
    assert listing.splits["train"].paths == ["b.png", "a.png"]
    assert listing.splits["test"].labels.tolist() == [1, 0]


def test_class_names_alone_get_labels_in_sorted_order(tmp_path: Path) -> None:
    listing = read(write(tmp_path, "path,class_name\n1.png,zebra\n2.png,ant\n"), "list.csv")
    assert listing.class_names == ["ant", "zebra"]
    assert listing.splits["test"].labels.tolist() == [1, 0]


def test_class_names_that_look_like_numbers_stay_text(tmp_path: Path) -> None:
    assert read(write(tmp_path, "path,class_name\n1.png,007\n2.png,1\n"), "list.csv").class_names == ["007", "1"]


def test_labels_alone_take_names_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("ant\nred_fox\n")
    listing = read(write(tmp_path, "path,label\n1.png,1\n2.png,0\n"), "list.csv", class_names=tmp_path / "names.txt")
    assert listing.class_names == ["ant", "red fox"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.png,0,cat\n2.png,1,dog\n", r"has columns '1.png', '0', 'cat'; expected path.*header line that names them"),
        ("path,split\n1.png,test\n", r"has columns 'path', 'split'; expected path, label and/or class_name"),
        ("path,label\n1.png,0\n", r"has labels but no class names; add a column class_name"),
        ("path,label,class_name\n1.png,cat,0\n", r"cannot be read as a list of images .*'cat'"),
        ("path,label,class_name\n1.png,,cat\n", r"row 1 has no label; fill it in or remove the row"),
        ("path,label,class_name\n1.png,0,cat\n2.png,0,dog\n", r"label 0 has two class names, 'cat' and 'dog'"),
        ("path,label,class_name\n1.png,0,cat\n2.png,1,cat\n", r"class name 'cat' is used for labels \[0, 1\]"),
        ("path,label,class_name\n1.png,0,cat\n2.png,2,dog\n", r"no image has label 1, though labels go up to 2"),
        ("path,class_name\n../1.png,cat\n", r"path '../1.png' leaves the dataset's root"),
        ("path,class_name\na/../../1.png,cat\n", r"leaves the dataset's root"),
        ("path,class_name\n1.png,cat\n./1.png,cat\n", r"lists '1.png' more than once"),
        ("path,class_name\n", r"lists no images"),
        ("", r"cannot be read as a list of images"),
    ],
)
def test_a_faulty_list(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(write(tmp_path, text), "list.csv")


def test_a_label_beyond_the_class_names(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("ant\nbee\n")
    write(tmp_path, "path,label\n1.png,0\n2.png,2\n")
    with pytest.raises(DataError, match=r"2.png \(test\) has label 2, out of range for 2 classes \(0 to 1\)"):
        read(tmp_path, "list.csv", class_names=tmp_path / "names.txt")


def test_a_class_without_images(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("ant\nbee\ncat\n")
    write(tmp_path, "path,label\n1.png,0\n2.png,2\n")
    with pytest.raises(DataError, match=r"no image in class 'bee'; add images, or remove the class"):
        read(tmp_path, "list.csv", class_names=tmp_path / "names.txt")


def test_a_class_missing_from_the_names_file(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("ant\n")
    write(tmp_path, "path,class_name\n1.png,bee\n")
    with pytest.raises(DataError, match=r"names.txt lacks class 'bee'; add it, or correct the row"):
        read(tmp_path, "list.csv", class_names=tmp_path / "names.txt")


def test_a_missing_or_unknown_file(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"list.csv does not exist; correct the file in layout 'manifest:list.csv'"):
        read(tmp_path, "list.csv")
    with pytest.raises(DataError, match=r"list.txt: expected a .csv, .tsv, .parquet or .json file"):
        read(write(tmp_path, "x", name="list.txt"), "list.txt")
    with pytest.raises(DataError, match=r"list.parquet cannot be read as a list of images"):
        read(write(tmp_path, "x", name="list.parquet"), "list.parquet")
