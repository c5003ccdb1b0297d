"""Lists of images in files and saved Hugging Face datasets: all give the same kind of listing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from miniature import png, write_huggingface

from wsoup.base.errors import DataError, MissingError
from wsoup.datasets import digests, saved, tables
from wsoup.datasets.listing import Listing, validated
from wsoup.disk.files import read_bytes
from wsoup.images.decode import load_rgb

ROWS = [
    {"path": "b.png", "label": 1, "class_name": "red_fox", "split": "train"},
    {"path": "a.png", "label": 0, "class_name": "zebra", "split": "train"},
    {"path": "c/c.png", "label": 1, "class_name": "red_fox", "split": "test"},
    {"path": "d.png", "label": 0, "class_name": "zebra", "split": "validation"},
    {"path": "e.png", "label": 0, "class_name": "zebra", "split": "test"},
]
BOTH = ("train", "test")


def read(root: Path, text: str = "", *, file: str = "list.csv", names: str | None = None) -> Listing:
    """The listing of a file, which holds `text`, with a file of class names."""
    if text:
        (root / file).write_text(text)
    if names is not None:
        (root / "names.txt").write_text(names)
    class_names = None if names is None else str(root / "names.txt")
    return validated(tables.read(file, root=str(root), wanted=BOTH, class_names=class_names))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_all_formats_give_the_same_listing(tmp_path: Path, suffix: str) -> None:
    table, file = pa.Table.from_pylist(ROWS), tmp_path / f"list.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, file)
    else:
        pa_csv.write_csv(table, file, pa_csv.WriteOptions(delimiter="\t" if suffix == "tsv" else ","))
    listing = read(tmp_path, file=file.name)
    assert listing.class_names == ["zebra", "red fox"]
    assert sorted(listing.splits) == ["test", "train"]
    assert listing.splits["train"].paths == ["b.png", "a.png"]
    assert listing.splits["test"].labels.tolist() == [1, 0]


def test_class_names_alone_get_labels_in_sorted_order(tmp_path: Path) -> None:
    listing = read(tmp_path, "path,class_name\n1.png,zebra\n2.png,ant\n")
    assert listing.class_names == ["ant", "zebra"]
    assert listing.splits["test"].labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("first", "second"), [("Dog", "dog"), ("hot-dog", "hot dog"), ("golden_retriever", "golden retriever")]
)
def test_names_that_no_reader_tells_apart_are_refused_with_their_rows(tmp_path: Path, first: str, second: str) -> None:
    with pytest.raises(DataError, match=r"\(rows \d and \d\) differ in case, separators or blanks alone"):
        read(tmp_path, f"path,label\n1.png,{first}\n2.png,cat\n3.png,{second}\n")


def test_numbers_tell_such_names_apart(tmp_path: Path) -> None:
    numbered = "path,label,class_name\n1.png,0,Dog\n2.png,1,dog\n"
    assert read(tmp_path, numbered).class_names == ["Dog", "dog"]


def test_unicode_forms_of_a_name_are_one_class(tmp_path: Path) -> None:
    listing = read(tmp_path, "path,label\n1.png,caf\u00e9\n2.png,cafe\u0301\n3.png,bar\n")
    assert listing.class_names == ["bar", "caf\u00e9"]
    assert listing.splits["test"].labels.tolist() == [1, 1, 0]
    assert listing.notes == [
        "read as one class though written in two Unicode forms, composed and decomposed: 'caf\u00e9'"
    ]


def test_numbers_of_pandas_are_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"one class name per line: label holds numbers, such as '1\.0'$"):
        read(tmp_path, "path,label\n1.png,1.0\n2.png,0.0\n")


def test_paths_and_splits_have_one_form(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(
        "path,class_name,split\na\\1.png,a,testing\n\\2.png,a,valid\n./b//3.png,a,test\n"
    )
    splits = tables.read("list.csv", root=str(tmp_path), wanted=("test", "val")).splits
    assert (splits["test"].paths, splits["val"].paths) == (["a/1.png", "b/3.png"], ["2.png"])


def test_class_names_that_look_like_numbers_stay_text(tmp_path: Path) -> None:
    assert read(tmp_path, "path,class_name\n1.png,007\n2.png,1\n").class_names == ["007", "1"]


@pytest.mark.parametrize("text", ["label\n1.png,1\n2.png,0\n", "class_name\n1.png,red fox\n2.png,ant\n"])
def test_a_file_of_class_names_says_which_label_is_which(tmp_path: Path, text: str) -> None:
    listing = read(tmp_path, f"path,{text}", names="ant\nred_fox\n")
    assert listing.class_names == ["ant", "red fox"]
    assert listing.splits["test"].labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "label\n1.png,0\n2.png,2\n",
            r"list.csv, row 2 \('2.png'\) has label 2, out of range for 2 classes \(0 to 1\) in .*names.txt",
        ),
        ("label\n1.png,0\n2.png,0\n", r"no image in class 'bee'; add images, or remove the class"),
        (
            "class_name\n1.png,cat\n",
            r"list.csv, row 1 \('1.png'\): class 'cat' is not in the list of classes, .*names.txt; add it, or",
        ),
    ],
)
def test_a_list_that_does_not_fit_the_class_names(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, f"path,{text}", names="ant\nbee\n")


# ---------------------------------------------------------------------------------------------------- Hugging Face


def test_rows_of_a_saved_dataset_are_listed(tmp_path: Path) -> None:
    home = write_huggingface(tmp_path / "saved")
    listing = validated(saved.read_saved(str(home), wanted=("train", "val")))
    assert listing.class_names == ["ant", "red fox"]
    assert listing.splits["val"].paths[2] == "validation/data-00000-of-00001.arrow/image/2"
    assert listing.splits["train"].labels.tolist() == [1, 0, 1]
    path = listing.splits["val"].paths[2]
    assert read_bytes(f"{home}/{path}") == png(2)
    assert load_rgb(f"{home}/{path}").getpixel((0, 0)) == (2, 2, 2)
    assert digests.of_images(str(home), [path], origin="x")[0] == [len(png(2))]


def test_a_single_saved_dataset_is_a_test_split(tmp_path: Path) -> None:
    home = write_huggingface(tmp_path / "saved") / "train"
    listing = saved.read_saved(str(home), wanted=("test",))
    assert listing.splits["test"].paths[0] == "data-00000-of-00001.arrow/image/0"
    assert read_bytes(f"{home}/{listing.splits['test'].paths[0]}") == png(0)


def test_a_dataset_saved_by_the_library_itself_is_read(tmp_path: Path) -> None:
    pytest.importorskip("datasets.features")
    import datasets

    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["ant", "bee"])})
    rows = {"image": [{"bytes": png(i), "path": None} for i in range(3)], "label": [0, 1, 1]}
    dataset = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict({"test": dataset}).save_to_disk(str(tmp_path))
    listing = validated(saved.read_saved(str(tmp_path), wanted=("test",)))
    assert listing.class_names == ["ant", "bee"]
    assert [read_bytes(f"{tmp_path}/{path}") for path in listing.splits["test"].paths] == [png(0), png(1), png(2)]


@pytest.mark.parametrize("cell", ["image/3", "image/-1", "image/x", "label/0", "other/0", "image", "image/0/0"])
def test_a_row_that_is_gone(tmp_path: Path, cell: str) -> None:
    home = write_huggingface(tmp_path / "saved") / "train/data-00000-of-00001.arrow"
    with pytest.raises(DataError, match=rf"arrow has no image '{cell}'; run `dvc repro prepare` to list it again"):
        read_bytes(f"{home}/{cell}")


def test_nothing_saved(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"holds no dataset saved by `save_to_disk`"):
        saved.read_saved(str(tmp_path), wanted=BOTH)
