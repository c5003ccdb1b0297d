"""Faulty lists, Hugging Face folders, tars and split files: each is read, or gives one clear line that names a file."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corrupt import corrupted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from miniature import png, write_huggingface, write_tar, write_tars

from wsoup.base.errors import DataError, MissingError
from wsoup.datasets import containers, coop, digests, folder, tables
from wsoup.datasets.listing import Listing, validated
from wsoup.disk.members import read_bytes

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
    elif suffix == "json":
        path.write_text(json.dumps(ROWS))
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
    "path,path,class_name\na,b,c\n": 'Field "path" exists 2 times',
    "path,label,label,class_name\na,0,0,c\n": 'Field "label" exists 2 times',
    "path,class_name\na\0b.png,c\n": "is not a file name",
    "path,class_name\na.png,c\0d\n": "holds a control character",
    "path,label,class_name\na.png,1.9,c\n": "invalid value '1.9'",
    "path,label,class_name\na.png,1000000000,c\n": "label: entry 1: Input should be less than or equal to 1000000",
    "path,label,class_name\na.png,99999999999999999999,c\n": "cannot be read as a list of images",
    "path,label,class_name\na.png,-1,c\n": "label: entry 1: Input should be greater than or equal to 0, not -1",
    "path,label,class_name\na.png,900000,c\n": "no image has label 0, 1, 2 and 899,997 more",
    "path,label,class_name\n1.png,0,cat\n2.png,2,dog\n": "no image has label 1, though labels go up to 2",
    "1.png,0,cat\n2.png,1,dog\n": "path: Field required; expected columns path, label and/or class_name, split (a CSV",
    "path,split\n1.png,test\n": "has no class names; add a column class_name",
    "path,label\n1.png,0\n": "has no class names; add a column class_name, or a column label and set class_names to",
    "path,label,class_name\n1.png,cat,0\n": "invalid value 'cat'",
    "path,label,class_name\n1.png,,cat\n": "label: entry 1: Input should be a valid integer, not None",
    "path,label,class_name\n1.png,0,cat\n2.png,0,dog\n": "label 0 has two class names, 'cat' and 'dog'",
    "path,label,class_name\n1.png,0,cat\n2.png,1,cat\n": "class name 'cat' is used for labels [0, 1]",
    "path,class_name\n../1.png,cat\n": "path '../1.png' leaves the dataset's root",
    "path,class_name\na/../../1.png,cat\n": "leaves the dataset's root",
    "path,class_name\n1.png,cat\n./1.png,cat\n": "lists '1.png' more than once",
    "path,class_name\n,cat\n": "an image has an empty path",
    "path,class_name\na/..,cat\n": "an image has an empty path",
    "path,class_name\n..\\1.png,cat\n": "leaves the dataset's root",
    "path,class_name\n": "lists no images",
    "": "cannot be read as a list of images",
}


@pytest.mark.parametrize("text", CSV)
def test_a_faulty_csv_list(tmp_path: Path, text: str) -> None:
    (tmp_path / "list.csv").write_bytes(text.encode())
    error = refusal(read_list(tmp_path / "list.csv"))
    assert "list.csv" in error
    assert CSV[text] in error


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"path": "a"}, "Input should be a valid array"),
        (None, "Input should be a valid array"),
        ([["a", 0]], "entry 1: Input should be an object"),
        ([], "path: Field required"),
        ([{"path": "a", "label": 1.9, "class_name": "c"}], "label: entry 1: Input should be a valid integer, not 1.9"),
        ([{"path": "a", "label": True, "class_name": "c"}], "should be a valid integer, not True"),
        ([{"path": "a", "label": float("inf"), "class_name": "c"}], "should be a valid integer, not inf"),
        ([{"path": "a", "label": 10**30, "class_name": "c"}], "should be less than or equal to 1000000"),
        ([{"path": ["a"], "class_name": "c"}], "path: entry 1: Input should be a valid string"),
        ([{"path": "a", "class_name": {"x": 1}}], "class_name: entry 1: Input should be a valid string"),
        ([{"path": "a", "class_name": "c"}, {"class_name": "c"}], "path: entry 2: Input should be a valid string"),
        ([{"path": "a", "class_name": "c"}, {"path": "b", "class_name": "c", "split": "test"}], "split: entry 1"),
        ([{"path": "\ud800", "class_name": "c"}], "Invalid JSON"),
    ],
)
def test_a_faulty_json_list(tmp_path: Path, value: object, message: str) -> None:
    (tmp_path / "list.json").write_text(json.dumps(value))
    error = refusal(read_list(tmp_path / "list.json"))
    assert "list.json" in error
    assert message in error


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000, "{", "\ufeff\ufeff[]", "[NaN]", ""])
def test_a_list_that_is_not_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "list.json").write_text(text)
    assert "list.json" in refusal(read_list(tmp_path / "list.json"))


def test_other_files_are_no_lists(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("x")
    assert "list.txt: expected a .csv, .tsv, .parquet or .json file" in refusal(read_list(tmp_path / "list.txt"))
    assert "list.csv does not exist; correct the file in layout" in refusal(read_list(tmp_path / "list.csv"))


PARQUET: dict[str, tuple[dict[str, pa.Array], str]] = {
    "labels as floats": ({"label": pa.array([0.5] * 6)}, "label: entry 1: Input should be a valid integer, not 0.5"),
    "labels as text": ({"label": pa.array(list("010101"))}, "should be a valid integer, not '0'"),
    "labels as dates": ({"label": pa.array([1] * 6, pa.date32())}, "should be a valid integer"),
    "one label missing": (
        {"label": pa.array([0, 1, 0, None, 0, 1])},
        "label: entry 4: Input should be a valid integer",
    ),
    "a label too many": ({"label": pa.array([0, 1, 0, 1, 0, 2**62])}, "less than or equal to 1000000"),
    "paths as bytes": ({"path": pa.array([b"\xff"] * 6)}, "path: entry 1: Input should be a valid string"),
    "paths in lists": ({"path": pa.array([["a"]] * 6)}, "path: entry 1: Input should be a valid string"),
    "a split missing": ({"split": pa.array(["test"] * 5 + [None])}, "split: entry 6: Input should be a valid string"),
    "class names as structs": ({"class_name": pa.array([{"a": 1}] * 6)}, "should be a valid string"),
}


@pytest.mark.parametrize("edit", PARQUET)
def test_a_hand_edited_parquet_list(tmp_path: Path, edit: str) -> None:
    columns, message = PARQUET[edit]
    table = pa.Table.from_pylist(ROWS)
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    pq.write_table(table, tmp_path / "list.parquet")
    error = refusal(read_list(tmp_path / "list.parquet"))
    assert "list.parquet" in error
    assert message in error


def test_a_parquet_list_may_hold_small_numbers_and_dictionaries(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    columns = {"label": table["label"].cast(pa.uint8()), "class_name": table["class_name"].dictionary_encode()}
    pq.write_table(pa.table({"path": table["path"], **columns}), tmp_path / "list.parquet")
    assert read_list(tmp_path / "list.parquet")().splits["test"].labels.tolist() == [0, 1, 0, 1, 0, 1]


Edit = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], object]
WRONG_SHAPES: list[tuple[Edit, str]] = [
    (lambda index, info, state: index.pop("splits"), "dataset_dict.json: splits: Field required"),
    (lambda index, info, state: index.update(splits={"train": 1}), "splits: Input should be a valid array"),
    (lambda index, info, state: index.update(splits=[]), "splits: List should have at least 1 item"),
    (lambda index, info, state: index.update(splits=["../x"]), "splits: entry 1: String should match"),
    (lambda index, info, state: index.update(splits=["."]), "splits: entry 1: String should match"),
    (lambda index, info, state: index.update(splits=["validation", "val"]), "lists a split twice: validation, val"),
    (lambda index, info, state: info.pop("features"), "dataset_info.json: features: Field required"),
    (lambda index, info, state: info.update(features=[]), "features: Input should be an object"),
    (lambda index, info, state: info.update(features={"a": "Image"}), "features: a: Input should be an object"),
    (lambda index, info, state: info["features"].pop("label"), "expected one Image and one ClassLabel column, found"),
    (lambda index, info, state: info["features"]["label"].pop("names"), "expected one Image and one ClassLabel column"),
    (lambda index, info, state: info["features"]["label"].update(names=[1, 2]), "names: entry 1: Input should be a"),
    (lambda index, info, state: info["features"].update(more={"_type": "Image"}), "expected one Image and one"),
    (lambda index, info, state: info["features"]["label"].update(names=["a", "b"]), "has other class names"),
    (lambda index, info, state: info["features"]["label"].update(names=["ant"]), "has other class names"),
    (
        lambda index, info, state: info.update(features={"x": {"_type": "Image"}, "label": info["features"]["label"]}),
        "expected images with their bytes in column 'x'",
    ),
    (
        lambda index, info, state: info.update(
            features={"label": {"_type": "Image"}, "image": {**info["features"]["label"]}}
        ),
        "expected images with their bytes in column 'label'",
    ),
    (lambda index, info, state: state.pop("_data_files"), "state.json: _data_files: Field required"),
    (lambda index, info, state: state.update(_data_files=[]), "_data_files: List should have at least 1 item"),
    (lambda index, info, state: state.update(_data_files=["a"]), "_data_files: entry 1: Input should be an object"),
    (lambda index, info, state: state.update(_data_files=[{}]), "_data_files: entry 1: filename: Field required"),
    (lambda index, info, state: state.update(_data_files=[{"filename": "/etc/passwd"}]), "not '/etc/passwd'"),
    (lambda index, info, state: state.update(_data_files=[{"filename": "gone.arrow"}]), "gone.arrow does not exist"),
    (lambda index, info, state: state.update(_data_files=[{"filename": "state.json"}]), "not a complete Arrow stream"),
    (
        lambda index, info, state: state.update(_indices_data_files=[{"filename": "i"}]),
        "call flatten_indices() and save",
    ),
]


def read_huggingface(root: Path) -> Callable[[], Listing]:
    return lambda: containers.read_huggingface(str(root), wanted=BOTH)


@pytest.mark.parametrize(("edit", "message"), WRONG_SHAPES)
def test_a_hugging_face_folder_of_the_wrong_shape(tmp_path: Path, edit: Edit, message: str) -> None:
    root = write_huggingface(tmp_path / "saved")
    files = [root / "dataset_dict.json", root / "validation/dataset_info.json", root / "validation/state.json"]
    values = [json.loads(file.read_text()) for file in files]
    edit(*values)
    for file, value in zip(files, values, strict=True):
        file.write_text(json.dumps(value))
    assert message in refusal(read_huggingface(root))


@pytest.mark.parametrize("name", ["dataset_dict.json", "train/state.json", "train/dataset_info.json"])
@pytest.mark.parametrize("text", ["[]", "null", "{", "\udcff", "[" * 100_000])
def test_a_hugging_face_file_that_is_not_an_object(tmp_path: Path, name: str, text: str) -> None:
    root = write_huggingface(tmp_path / "saved")
    (root / name).write_bytes(text.encode(errors="surrogateescape"))
    assert name in refusal(read_huggingface(root))


IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
ARROW: dict[str, tuple[pa.Array, pa.Array, str]] = {
    "labels 1.9": (pa.array([{"bytes": b""}] * 2, IMAGE), pa.array([1.9, 0.0]), "whole numbers in column 'label'"),
    "labels in words": (pa.array([{"bytes": b""}] * 2, IMAGE), pa.array(["a", "b"]), "whole numbers in column 'label'"),
    "no label": (pa.array([{"bytes": b""}] * 2, IMAGE), pa.array([1, None]), "some rows have no label"),
    "no image": (pa.array([{"bytes": b""}, None], IMAGE), pa.array([1, 0]), "or an image outside of the file"),
    "image elsewhere": (
        pa.array([{"path": "/etc/a.png"}] * 2, IMAGE),
        pa.array([1, 0]),
        "an image outside of the file",
    ),
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


@pytest.mark.parametrize("edit", ARROW)
def test_an_arrow_file_with_other_columns(tmp_path: Path, edit: str) -> None:
    root = write_huggingface(tmp_path / "saved")
    images, labels, message = ARROW[edit]
    table, file = pa.table({"image": images, "label": labels}), root / "train/data-00000-of-00001.arrow"
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    assert message in refusal(read_huggingface(root))


def read_tars(root: Path) -> Callable[[], Listing]:
    return lambda: containers.read_webdataset(str(root), wanted=BOTH)


@pytest.mark.parametrize("text", ["", "two", "-1", "1.5", "9" * 5_000, "²", "3"])
def test_an_invalid_number_of_shards(tmp_path: Path, text: str) -> None:
    root = write_tars(tmp_path / "tars")
    (root / "test/nshards.txt").write_text(text, encoding="utf-8")
    expected = "test has 2 tar files, expected 3; download the others" if text == "3" else "nshards.txt holds "
    assert expected in refusal(read_tars(root))


@pytest.mark.parametrize("label", [b"1.9", b"-1", b"9" * 5_000, b"10000000", "²".encode(), b"", b"cat", None])
def test_an_invalid_label_in_a_tar(tmp_path: Path, label: bytes | None) -> None:
    root = write_tars(tmp_path / "tars")
    write_tar(root / "test/1.tar", {"a.png": png(1)} | ({} if label is None else {"a.cls": label}))
    expected = "1.tar: image 'a.png' has no label" if label is None else "1.tar: a.cls holds "
    assert expected in refusal(read_tars(root))


@pytest.mark.parametrize("where", ["test/1.tar", "test/nshards.txt", "classnames.txt"])
@pytest.mark.parametrize("make", ["fifo", "folder", "loop"])
def test_a_webdataset_file_that_is_not_a_regular_file(tmp_path: Path, where: str, make: str) -> None:
    root = write_tars(tmp_path / "tars")
    (root / where).unlink()
    {"fifo": os.mkfifo, "folder": os.mkdir, "loop": lambda path: os.symlink(path, path)}[make](root / where)
    assert where in refusal(read_tars(root))


def member(name: str, data: bytes = b"", **values: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in values.items():
        setattr(info, key, value)
    return info, data


MEMBERS: dict[str, tuple[list[tuple[tarfile.TarInfo, bytes]], str | None]] = {
    "absolute": ([member("/etc/a.png", png(1)), member("/etc/a.cls", b"0")], None),
    "leaves the folder": ([member("../../a.png", png(1)), member("../../a.cls", b"0")], None),
    "newline": ([member("a\nb.png", png(1)), member("a\nb.cls", b"0")], None),
    "not UTF-8": ([member("a\udcff.png", png(1)), member("a\udcff.cls", b"0")], "is not a UTF-8 name"),
    "upper case": ([member("A.PNG", png(1)), member("A.cls", b"0")], None),
    "twice": ([member("a.png", png(1)), member("a.png", png(2)), member("a.cls", b"0")], None),
    "link": (
        [member("a.png", type=tarfile.SYMTYPE, linkname="/etc/passwd"), member("a.cls", b"0")],
        "no image in class",
    ),
    "hard link": ([member("a.png", type=tarfile.LNKTYPE, linkname="/etc/passwd")], "no image in class"),
    "device": ([member("a.png", type=tarfile.CHRTYPE), member("b.png", type=tarfile.FIFOTYPE)], "no image in class"),
    "folder": ([member("a.png", type=tarfile.DIRTYPE), member("a.cls", b"0")], "no image in class"),
    "huge": ([member("a.png", size=1 << 60)], "not a complete, uncompressed tar file"),
    "sparse": (
        [member("a.png", png(1), pax_headers={"GNU.sparse.map": "0,4", "GNU.sparse.size": "100"})],
        "no image in class",
    ),
    "no name": ([member(".png", png(1))], "no image in class"),
}


@pytest.mark.parametrize("kind", MEMBERS)
def test_a_tar_with_hostile_members_reads_inside_itself_or_is_refused(tmp_path: Path, kind: str) -> None:
    root = write_tars(tmp_path / "tars")
    members, message = MEMBERS[kind]
    (root / "test/0.tar").unlink()
    (root / "test/nshards.txt").unlink()
    with tarfile.open(root / "test/1.tar", "w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as tar:
        for info, data in [*members, member("z.png", png(9)), member("z.cls", b"1")]:
            try:
                tar.addfile(info, io.BytesIO(data))
            except OSError:  # fewer bytes than it says
                tar.offset = tar.fileobj.tell()
    if message is not None:
        assert message in refusal(read_tars(root))
        return
    paths = validated(read_tars(root)()).splits["test"].paths
    assert [read_bytes(f"{root}/{path}") for path in paths][-1] == png(9)
    assert read_bytes(f"{root}/{paths[0]}") in (png(1), png(2))


@pytest.mark.parametrize("spoil", [lambda data: data[:700], gzip.compress, lambda data: b"", lambda data: b"<html>"])
def test_a_cut_compressed_or_other_tar(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    root = write_tars(tmp_path / "tars")
    (root / "test/1.tar").write_bytes(spoil((root / "test/1.tar").read_bytes()))
    assert "1.tar is" in refusal(read_tars(root))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "Input should be an object"),
        (None, "Input should be an object"),
        ({"test": {"a": 1}}, "test: Input should be a valid array"),
        ({"test": [["a.jpg", 0]]}, "test: entry 1: entry 3: Field required"),
        ({"test": [["a.jpg", 0, "cat", "dog"]]}, "test: entry 1: Tuple should have at most 3 items"),
        ({"test": [["a.jpg", 1.9, "cat"]]}, "test: entry 1: entry 2: Input should be a valid integer, not 1.9"),
        ({"test": [["a.jpg", float("inf"), "cat"]]}, "should be a valid integer, not inf"),
        ({"test": [["a.jpg", float("nan"), "cat"]]}, "should be a valid integer, not nan"),
        ({"test": [["a.jpg", True, "cat"]]}, "should be a valid integer, not True"),
        ({"test": [["a.jpg", "0", "cat"]]}, "should be a valid integer, not '0'"),
        ({"test": [["a.jpg", -1, "cat"]]}, "should be greater than or equal to 0, not -1"),
        ({"test": [["a.jpg", 10**9, "cat"]]}, "should be less than or equal to 1000000"),
        ({"test": [["a.jpg", 10**4000, "cat"]]}, "not a number of more than 1,000 digits"),
        ({"test": [[7, 0, "cat"]]}, "test: entry 1: entry 1: Input should be a valid string, not 7"),
        ({"test": [["a.jpg", 0, None]]}, "test: entry 1: entry 3: Input should be a valid string"),
        ({"test": [["a\0.jpg", 0, "cat"]]}, "is not a file name"),
        ({"test": [["\ud800.jpg", 0, "cat"]]}, "Invalid JSON"),
        ({"test": [["a.jpg", 0, "\0"]]}, "holds a control character"),
        ({"test": [["../../etc/x.jpg", 0, "cat"]]}, "path '../../etc/x.jpg' leaves the dataset's root"),
        ({"test": [["/etc/x.jpg", 0, "cat"]]}, "path '/etc/x.jpg' is absolute; list paths relative"),
        ({"test": [["a.jpg", 9, "cat"]]}, "no image has label 0, 1, 2 and 6 more, though labels go up to 9"),
        ({"test": [["a.jpg", 0, "cat"], ["b.jpg", 0, "sea"]]}, "label 0 has two class names, 'cat' and 'sea'"),
        ({"test": [["a.jpg", 0, "sea"], ["b.jpg", 1, "sea"]]}, "class name 'sea' is used for labels [0, 1]; give each"),
        ({"test": [["a.jpg", 0, "cat"]] * 2}, "(test) lists 'eurosat/2750/a.jpg' more than once"),
        ({"val": [["a.jpg", 0, "cat"]]}, "lists no images"),
    ],
)
def test_a_faulty_coop_split_file(tmp_path: Path, value: object, message: str) -> None:
    file = tmp_path / "eurosat/split_zhou_EuroSAT.json"
    file.parent.mkdir()
    file.write_text(json.dumps(value))
    error = refusal(lambda: coop.read("eurosat", root=str(tmp_path), wanted=("test",), imagenet_names=list))
    assert "split_zhou_EuroSAT.json" in error
    assert message in error


# ------------------------------------------------------------------------------------------------------ drawn

CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["a.png", "b/c.png", "0"]),
)
NAMES = st.sampled_from(["path", "label", "class_name", "split", "Path", ""])
QUIET = [HealthCheck.function_scoped_fixture]


@given(header=st.lists(NAMES, max_size=4), rows=st.lists(st.lists(CELLS, max_size=4), max_size=4))
@settings(max_examples=150, deadline=None, suppress_health_check=QUIET)
def test_any_csv_list(tmp_path: Path, header: list[str], rows: list[list[Any]]) -> None:
    lines = [",".join(map(str, row)) for row in [header, *rows]]
    (tmp_path / "list.csv").write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    problem(read_list(tmp_path / "list.csv"))


# ---------------------------------------------------------------------------------------------------- damaged


def damage(tmp_path: Path, kind: str, seed: int) -> None:
    """Damage one file of a good dataset: it is read, or gives one line, and so does every image that it lists."""
    root = tmp_path / str(seed)
    root.mkdir(exist_ok=True)
    if kind in ("csv", "tsv", "json", "parquet"):
        path = write_list(root, kind)
        read = read_list(path)
    elif kind == "tar":
        path, read = write_tars(root) / "test/1.tar", lambda: containers.read_webdataset(str(root), wanted=BOTH)
    elif kind in ("arrow", "state", "info"):
        names = {"arrow": "data-00000-of-00001.arrow", "state": "state.json", "info": "dataset_info.json"}
        path = write_huggingface(root) / "train" / names[kind]
        read = lambda: containers.read_huggingface(str(root), wanted=("train",))  # noqa: E731
    else:
        (root / "test/a").mkdir(parents=True)
        (root / "test/a/1.png").write_bytes(png(1))
        path = root / "classnames.txt"
        path.write_text("a bumble bee\n")
        read = lambda: folder.read(str(root))  # noqa: E731
    path.write_bytes(corrupted(path.read_bytes(), seed=seed))
    if problem(read) is None and kind in ("tar", "arrow"):
        listing = read()
        for split in listing.splits.values():
            problem(lambda split=split: digests.of_images(str(root), split.paths, origin="x") and listing)
            for name in split.paths:
                assert isinstance(read_bytes(f"{root}/{name}"), bytes)


KINDS = ("csv", "tsv", "json", "parquet", "tar", "arrow", "state", "info", "classnames")


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_damaged_files(tmp_path: Path, kind: str) -> None:
    for seed in range(6):
        damage(tmp_path, kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files(tmp_path: Path, kind: str, block: int) -> None:
    for seed in range(6 + 50 * block, 6 + 50 * (block + 1)):
        damage(tmp_path, kind, seed)
