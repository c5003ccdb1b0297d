"""Faulty lists, Hugging Face folders and split files: each is read, or gives one clear line that names a file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corrupt import corrupted
from miniature import png, write_huggingface
from said import unsaid

from wsoup.base.errors import DataError, MissingError
from wsoup.datasets import coop, digests, folder, parquet_lists, saved, tables
from wsoup.datasets.listing import Listing, validated
from wsoup.disk.files import arrow_table, read_bytes

ROWS = [{"path": f"{i}.png", "label": i % 2, "class_name": "ab"[i % 2], "split": "test"} for i in range(6)]
BOTH = ("train", "val", "test")


def problem(read: Callable[[], Listing]) -> str | None:
    """The error of a reader, in one line; None where it reads the data. Other exceptions fail the test."""
    try:
        validated(read())
    except (DataError, MissingError) as error:
        text = str(error)
        assert "\n" not in text
        assert len(text) < 1000
        return text
    return None


def write_list(root: Path, suffix: str) -> Path:
    path = root / f"list.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        lines = [",".join(map(str, row.values())) for row in [dict(zip(ROWS[0], ROWS[0], strict=True)), *ROWS]]
        path.write_text("\n".join(lines).replace(",", "\t" if suffix == "tsv" else ",") + "\n")
    return path


def read_list(path: Path) -> Callable[[], Listing]:
    return lambda: tables.read(path.name, root=str(path.parent), wanted=BOTH)


def refusal(read: Callable[[], Listing]) -> str:
    """The error of a reader that must refuse."""
    error = problem(read)
    assert error is not None
    return error


# ----------------------------------------------------------------------------------------------------- by hand

CSV = {
    "path,path,class_name\na,b,c\n": "columns 'path' are there twice; rename or remove one",
    "path,label,label,class_name\na,0,0,c\n": "columns 'label' are there twice; rename or remove one",
    "path,class_name\na\0b.png,c\n": "is not a file name",
    "path,class_name\na.png,c\0d\n": "holds a control character",
    "path,label,class_name\na.png,1.9,c\n": "label '1.9' is not valid: it must be a whole number from 0",
    "path,label,class_name\na.png,1000000000,c\n": "label 1000000000 is too large; labels count from 0 to 1,000,000",
    "path,label,class_name\na.png,99999999999999999999,c\n": "label 99999999999999999999 is too large",
    "path,label,class_name\na.png,-1,c\n": "row 1 ('a.png'): label '-1' is not valid: it must be a whole number",
    "path,label,class_name\na.png,900000,c\n": "no image has label 0, 1, 2 and 899,997 more",
    "path,label,class_name\n1.png,0,cat\n2.png,2,dog\n": "no image has label 1, though labels go up to 2",
    "1.png,0,cat\n2.png,1,dog\n": "column path is missing beside '1.png', '0', 'cat'; expected columns path, label",
    "path,split\n1.png,test\n": "has no class names beside the columns 'path', 'split'; add a column class_name",
    "path,label\n1.png,0\n": "'label'; add a column class_name, or a column label and set class_names to a file",
    "path,label,class_name\n1.png,cat,0\n": "row 1 ('1.png'): label is 'cat', but class_name is '0'; correct one",
    "path,label,class_name\n1.png,,cat\n": "list.csv, row 1 ('1.png') has no label; fill it in, or remove the row",
    "path,label,class_name\n1.png,0,cat\n2.png,0,dog\n": "label 0 has two class names, 'cat' and 'dog'",
    "path,label,class_name\n1.png,0,cat\n2.png,1,cat\n": "class name 'cat' is used for labels [0, 1]",
    "path,class_name\n../1.png,cat\n": "path '../1.png' leaves the dataset's root",
    "path,class_name\na/../../1.png,cat\n": "leaves the dataset's root",
    "path,class_name\n1.png,cat\n./1.png,cat\n": "lists '1.png' more than once",
    "path,class_name\n1.png,cat\n1.png/,cat\n": "lists '1.png' more than once",
    "path,class_name\n1.png,cat\n1.png/.,cat\n": "lists '1.png' more than once",
    "path,class_name\n,cat\n": "an image has an empty path",
    "path,class_name\na/..,cat\n": "an image has an empty path",
    "path,class_name\n..\\1.png,cat\n": "leaves the dataset's root",
    "path,class_name\n": "lists no images",
    "": "list.csv is empty; expected columns path, label",
}


def test_a_faulty_csv_list(tmp_path: Path) -> None:
    def read(text: str) -> Listing:
        (tmp_path / "list.csv").write_bytes(text.encode())
        return validated(read_list(tmp_path / "list.csv")())

    assert unsaid(CSV.items(), read, file="list.csv") == []


def test_a_csv_list_of_many_columns_is_read_at_once(tmp_path: Path) -> None:
    header = ",".join(["path", "class_name", *(f"c{i}" for i in range(50_000))])
    (tmp_path / "list.csv").write_text(f"{header}\n1.png,cat\n2.png,dog\n")
    began = time.process_time()
    assert problem(read_list(tmp_path / "list.csv")) is None
    # Seconds; comparing each column with each other would take two minutes.
    assert time.process_time() - began < 7.5


def test_other_files_are_no_lists(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("x")
    assert "list.txt: expected a .csv, .tsv or .parquet file" in refusal(read_list(tmp_path / "list.txt"))
    assert "list.csv does not exist; correct the file in layout" in refusal(read_list(tmp_path / "list.csv"))


PARQUET: list[tuple[dict[str, pa.Array], str]] = [
    ({"label": pa.array([0.5] * 6)}, "row 1 ('0.png'): label '0.5' is not valid: it must be a whole number"),
    ({"label": pa.array([0, 1, 0, None, 0, 1])}, "row 4 ('3.png') has no label; fill it in, or remove the row"),
    ({"label": pa.array([0, 1, 0, 1, 0, 2**62])}, "row 6 ('5.png'): label 4611686018427387904 is too large"),
    (
        {"path": pa.array([b"\xff"] * 6)},
        "list.parquet: column path holds binary, expected texts or numbers; convert it",
    ),
    ({"class_name": pa.array([{"a": 1}] * 6)}, "column class_name holds struct<a: int64>, expected texts or numbers"),
]


def test_a_hand_edited_parquet_list(tmp_path: Path) -> None:
    def read(columns: dict[str, pa.Array]) -> Listing:
        table = pa.Table.from_pylist(ROWS)
        for name, column in columns.items():
            table = table.set_column(table.column_names.index(name), name, column)
        pq.write_table(table, tmp_path / "list.parquet")
        return validated(read_list(tmp_path / "list.parquet")())

    assert unsaid(PARQUET, read, file="list.parquet") == []


def test_a_parquet_list_may_hold_small_numbers_and_dictionaries(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    columns = {"label": table["label"].cast(pa.uint8()), "class_name": table["class_name"].dictionary_encode()}
    pq.write_table(pa.table({"path": table["path"], **columns}), tmp_path / "list.parquet")
    assert read_list(tmp_path / "list.parquet")().splits["test"].labels.tolist() == [0, 1, 0, 1, 0, 1]


def test_a_parquet_list_of_more_rows_than_its_bytes_can_name_is_refused(tmp_path: Path) -> None:
    """A million times the same row: 7 kB."""
    one = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, np.int8)), pa.array(["a/1.png"]))
    pq.write_table(pa.table({"path": one, "class_name": one}), tmp_path / "list.parquet")
    assert "list.parquet has 1,000,000 rows in " in refusal(read_list(tmp_path / "list.parquet"))


def test_a_parquet_list_of_a_long_text_is_refused_before_each_row_has_it(tmp_path: Path) -> None:
    """A thousand rows share a text of a megabyte."""
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, np.int8)), pa.array(["x" * 2**20]))
    paths = pa.array([f"{i}.png" for i in range(1000)])
    pq.write_table(pa.table({"path": paths, "class_name": long}), tmp_path / "list.parquet")
    error = refusal(read_list(tmp_path / "list.parquet"))
    assert "list.parquet: column class_name holds a text of 1,048,576 bytes, expected 4,096 at most" in error


def test_a_parquet_list_that_unpacks_to_too_much_is_refused_unread(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(parquet_lists, "LARGEST_FILE", 2**20)
    pq.write_table(pa.table({"path": ["x" * 2**21], "class_name": ["a"]}), tmp_path / "list.parquet")
    assert "list.parquet unpacks to 2,097," in refusal(read_list(tmp_path / "list.parquet"))


def test_a_compressed_arrow_file_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    table = pa.table({"x": np.zeros(2**21, np.uint8)})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(tmp_path / "x.arrow", table.schema, options=options) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match=r"x\.arrow is not .* \(it unpacks to more than 8 times"):
        arrow_table(str(tmp_path / "x.arrow"))


Edit = Callable[[dict[str, Any], dict[str, Any]], object]
WRONG_SHAPES: list[tuple[Edit, str]] = [
    (lambda info, state: info.pop("features"), "dataset_info.json: key 'features' is missing"),
    (lambda info, state: info.update(features=[]), "features: [] is not valid: it must be an object"),
    (lambda info, state: info["features"].pop("label"), "expected one Image and one ClassLabel column, found"),
    (lambda info, state: info["features"]["label"].pop("names"), "expected one Image and one ClassLabel column"),
    (lambda info, state: info["features"]["label"].update(names=[1, 2]), "names: entry 1: 1 is not valid: it must be"),
    (lambda info, state: info["features"].update(more={"_type": "Image"}), "expected one Image and one"),
    (lambda info, state: info["features"]["label"].update(names=["a", "b"]), "has other class names"),
    (
        lambda info, state: info.update(features={"label": {"_type": "Image"}, "image": {**info["features"]["label"]}}),
        "expected images with their bytes in column 'label'",
    ),
    (lambda info, state: state.pop("_data_files"), "state.json: key '_data_files' is missing"),
    (lambda info, state: state.update(_data_files=[]), "_data_files: [] is not valid: it must be a list of 1 or more"),
    (lambda info, state: state.update(_data_files=[{}]), "_data_files: entry 1: key 'filename' is missing"),
    (
        lambda info, state: state.update(_data_files=[{"filename": "/etc/passwd"}]),
        "'/etc/passwd' is not valid: it must be",
    ),
    (
        lambda info, state: state.update(_data_files=[{"filename": "../x.arrow"}]),
        "filename: '../x.arrow' is not valid:",
    ),
    (lambda info, state: state.update(_data_files=[{"filename": "."}]), "filename: '.' is not valid: it must be the"),
    (lambda info, state: state.update(_data_files=[{"filename": "gone.arrow"}]), "gone.arrow does not exist"),
    (lambda info, state: state.update(_data_files=[{"filename": "state.json"}]), "not a complete Arrow stream"),
]


def read_huggingface(root: Path) -> Callable[[], Listing]:
    return lambda: saved.read_saved(str(root), wanted=BOTH)


def test_a_hugging_face_folder_of_the_wrong_shape(tmp_path: Path) -> None:
    root = write_huggingface(tmp_path / "saved")
    files = [root / "validation/dataset_info.json", root / "validation/state.json"]
    texts = [file.read_text() for file in files]

    def read(edit: Edit) -> Listing:
        values = [json.loads(text) for text in texts]
        edit(*values)
        for file, value in zip(files, values, strict=True):
            file.write_text(json.dumps(value))
        return validated(read_huggingface(root)())

    assert unsaid(WRONG_SHAPES, read) == []


def test_a_hugging_face_file_that_is_not_an_object(tmp_path: Path) -> None:
    root = write_huggingface(tmp_path / "saved")
    for name in ("train/state.json", "train/dataset_info.json"):
        whole = (root / name).read_bytes()

        def read(text: str, name: str = name) -> Listing:
            (root / name).write_bytes(text.encode(errors="surrogateescape"))
            return validated(read_huggingface(root)())

        assert unsaid([(text, name) for text in ("[]", "null", "{", "\udcff", "[" * 100_000)], read) == []
        (root / name).write_bytes(whole)


IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
ARROW: dict[str, tuple[pa.Array, pa.Array, str]] = {
    "labels 1.9": (pa.array([{"bytes": b""}] * 2, IMAGE), pa.array([1.9, 0.0]), "whole numbers in column 'label'"),
    "no label": (pa.array([{"bytes": b""}] * 2, IMAGE), pa.array([1, None]), "some rows have no label"),
    "no image": (pa.array([{"bytes": b""}, None], IMAGE), pa.array([1, 0]), "or an image outside of the file"),
    "image elsewhere": (pa.array([{"path": "/a"}] * 2, IMAGE), pa.array([1, 0]), "an image outside of the file"),
    "image in words": (pa.array(["a", "b"]), pa.array([1, 0]), "expected images with their bytes in column 'image'"),
    "label out of range": (pa.array([{"bytes": b""}] * 2, IMAGE), pa.array([7, -1]), "has label 7, out of range for 2"),
}


BACKWARDS = pa.BinaryArray.from_buffers(
    pa.binary(), 2, [None, pa.array([0, 6, 3], pa.int32()).buffers()[1], pa.py_buffer(png(1))]
)
ARROW["offsets that go back"] = (
    pa.StructArray.from_arrays([BACKWARDS], ["bytes"]),
    pa.array([1, 0]),
    "is not a complete Arrow stream file",
)


def test_an_arrow_file_with_other_columns(tmp_path: Path) -> None:
    root = write_huggingface(tmp_path / "saved")

    def read(edit: str) -> Listing:
        images, labels, _ = ARROW[edit]
        table, file = pa.table({"image": images, "label": labels}), root / "train/data-00000-of-00001.arrow"
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return validated(read_huggingface(root)())

    assert unsaid([(edit, message) for edit, (*_, message) in ARROW.items()], read) == []


SPLIT_FILES: list[tuple[object, str]] = [
    ([], "[] is not valid: it must be an object of keys and values"),
    ({"test": {"a": 1}}, "test: {'a': 1} is not valid: it must be a list"),
    ({"test": [["a.jpg", 0]]}, "test: entry 1: entry 3 is missing"),
    ({"test": [["a.jpg", 0, "cat", "dog"]]}, "test: entry 1: ['a.jpg', 0, 'cat', ...] is not valid: it must be a"),
    ({"test": [["a.jpg", 1.9, "cat"]]}, "test: entry 1: entry 2: 1.9 is not valid: it must be an integer"),
    ({"test": [["a.jpg", float("nan"), "cat"]]}, "nan is not valid: it must be an integer"),
    ({"test": [["a.jpg", True, "cat"]]}, "True is not valid: it must be an integer"),
    ({"test": [["a.jpg", "0", "cat"]]}, "'0' is not valid: it must be an integer"),
    ({"test": [["a.jpg", -1, "cat"]]}, "-1 is not valid: it must be 0 or more"),
    ({"test": [["a.jpg", 10**4000, "cat"]]}, "a number of more than 1,000 digits is not valid: it must be"),
    ({"test": [[7, 0, "cat"]]}, "test: entry 1: entry 1: 7 is not valid: it must be text"),
    ({"test": [["a.jpg", 0, None]]}, "test: entry 1: entry 3: None is not valid: it must be text"),
    ({"test": [["a\0.jpg", 0, "cat"]]}, "is not a file name"),
    ({"test": [["\ud800.jpg", 0, "cat"]]}, "it is not JSON ("),
    ({"test": [["a.jpg", 0, "\0"]]}, "holds a control character"),
    ({"test": [["../../etc/x.jpg", 0, "cat"]]}, "path '../../etc/x.jpg' leaves the dataset's root"),
    ({"test": [["/etc/x.jpg", 0, "cat"]]}, "path '/etc/x.jpg' is absolute; list paths relative"),
    ({"test": [["a.jpg", 9, "cat"]]}, "no image has label 0, 1, 2 and 6 more, though labels go up to 9"),
    ({"test": [["a.jpg", 0, "cat"], ["b.jpg", 0, "sea"]]}, "label 0 has two class names, 'cat' and 'sea'"),
    ({"test": [["a.jpg", 0, "sea"], ["b.jpg", 1, "sea"]]}, "class name 'sea' is used for labels [0, 1]; give each"),
    ({"test": [["a.jpg", 0, "cat"]] * 2}, "(test) lists 'eurosat/2750/a.jpg' more than once"),
    ({"val": [["a.jpg", 0, "cat"]]}, "lists no images"),
]


def test_a_faulty_coop_split_file(tmp_path: Path) -> None:
    file = tmp_path / "eurosat/split_zhou_EuroSAT.json"
    file.parent.mkdir()

    def read(value: object) -> Listing:
        file.write_text(json.dumps(value))
        return validated(coop.read("eurosat", root=str(tmp_path), wanted=("test",)))

    assert unsaid(SPLIT_FILES, read, file=file.name) == []


# ---------------------------------------------------------------------------------------------------- damaged


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "arrow", "state", "info", "classnames"])
def test_damaged_files_of_a_good_dataset(tmp_path: Path, kind: str) -> None:
    for seed in range(6):
        root = tmp_path / str(seed)
        root.mkdir()
        read_damaged(root, kind=kind, seed=seed)


def read_damaged(root: Path, *, kind: str, seed: int) -> None:
    """A damaged file is read, or gives one line, and so does every image that it lists."""
    if kind in ("csv", "tsv", "parquet"):
        path = write_list(root, kind)
        read = read_list(path)
    elif kind in ("arrow", "state", "info"):
        names = {"arrow": "data-00000-of-00001.arrow", "state": "state.json", "info": "dataset_info.json"}
        path = write_huggingface(root) / "train" / names[kind]
        read = lambda: saved.read_saved(str(root), wanted=("train",))  # noqa: E731
    else:
        (root / "test/a").mkdir(parents=True)
        (root / "test/a/1.png").write_bytes(png(1))
        path = root / "classnames.txt"
        path.write_text("a bumble bee\n")
        read = lambda: folder.read(str(root))  # noqa: E731
    path.write_bytes(corrupted(path.read_bytes(), seed=seed))
    if problem(read) is None and kind == "arrow":
        listing = read()
        for split in listing.splits.values():
            problem(lambda split=split: digests.of_images(str(root), split.paths, origin="x") and listing)
            for name in split.paths:
                assert isinstance(read_bytes(f"{root}/{name}"), bytes)
