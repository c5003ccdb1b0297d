"""Faulty lists, Hugging Face folders, tars and split files: each is read, or gives one clear line that names a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corrupt import corrupted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from miniature import build_coop, png, write_huggingface, write_tar, write_tars

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


# ----------------------------------------------------------------------------------------------------- by hand


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,path,class_name\na,b,c\n", "has 2 columns called 'path'; keep one"),
        ("path,label,label,class_name\na,0,0,c\n", "has 2 columns called 'label'"),
        ("path,class_name\na\0b.png,c\n", "is not a file name"),
        ("path,class_name\na.png,c\0d\n", "holds a control character"),
        ("path,label,class_name\na.png,1.9,c\n", "cannot be read as a list of images"),
        ("path,label,class_name\na.png,1000000000,c\n", "label 1000000000 is beyond 1,000,000"),
        ("path,label,class_name\na.png,99999999999999999999,c\n", "cannot be read as a list of images"),
        ("path,label,class_name\na.png,-1,c\n", "label -1 of class 'c' is out of range"),
        ("path,label,class_name\na.png,900000,c\n", "no image has label 0, 1, 2 and 899,997 more"),
    ],
)
def test_a_faulty_csv_list(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "list.csv").write_bytes(text.encode())
    error = problem(read_list(tmp_path / "list.csv"))
    assert error is not None
    assert message in error


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"path": "a"}, "is not a list of rows"),
        ([["a", 0]], "is not a list of rows"),
        ([], "has columns"),
        (None, "is not a list of rows"),
        ([{"path": "a", "label": 1.9, "class_name": "c"}], "column label should hold int64 values"),
        ([{"path": "a", "label": True, "class_name": "c"}], "column label should hold int64 values"),
        ([{"path": "a", "label": float("inf"), "class_name": "c"}], "column label should hold int64 values"),
        ([{"path": "a", "label": 10**30, "class_name": "c"}], "cannot be read as a list of images"),
        ([{"path": ["a"], "class_name": "c"}], "column path should hold string values"),
        ([{"path": "a", "class_name": {"x": 1}}], "column class_name should hold string values"),
        ([{"path": "a", "class_name": "c"}, {"class_name": "c"}], "row 2 has no path"),
        ([{"path": "a", "class_name": "c"}, {"path": "b", "class_name": "c", "split": "test"}], "row 1 has no split"),
        ([{"path": "a", "class_name": 1}, {"path": "b", "class_name": "c"}], "cannot be read as a list of images"),
        ([{"path": "\ud800", "class_name": "c"}], "cannot be read as a list of images"),
    ],
)
def test_a_faulty_json_list(tmp_path: Path, value: object, message: str) -> None:
    (tmp_path / "list.json").write_text(json.dumps(value))
    error = problem(read_list(tmp_path / "list.json"))
    assert error is not None
    assert message in error


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000, "{", "\ufeff\ufeff[]", "[NaN]", ""])
def test_a_list_that_is_not_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "list.json").write_text(text)
    error = problem(read_list(tmp_path / "list.json"))
    assert error is not None
    assert "list.json" in error


Edit = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], object]
WRONG_SHAPES: list[tuple[Edit, str]] = [
    (lambda index, info, state: index.pop("splits"), "splits should be a list"),
    (lambda index, info, state: index.update(splits={"train": 1}), "splits should be a list"),
    (lambda index, info, state: index.update(splits=["../x"]), "split '../x' appears twice, or"),
    (lambda index, info, state: index.update(splits=["validation", "val"]), "split 'val' appears twice"),
    (lambda index, info, state: info.pop("features"), "features should be an object of objects"),
    (lambda index, info, state: info.update(features=[]), "features should be an object of objects"),
    (lambda index, info, state: info.update(features={"a": "Image"}), "features should be an object of objects"),
    (lambda index, info, state: info["features"]["label"].pop("names"), "class names should be a list"),
    (lambda index, info, state: info["features"]["label"].update(names=[1, 2]), "class names should be a list"),
    (lambda index, info, state: info["features"].update(more={"_type": "Image"}), "expected one Image and one"),
    (lambda index, info, state: info["features"]["label"].update(names=["a", "b"]), "has other class names"),
    (lambda index, info, state: info["features"]["label"].update(names=["ant"]), "has other class names"),
    (
        lambda index, info, state: info.update(features={"x": {"_type": "Image"}, "label": info["features"]["label"]}),
        "expected one called 'x'",
    ),
    (
        lambda index, info, state: info.update(
            features={"label": {"_type": "Image"}, "image": {**info["features"]["label"]}}
        ),
        "expected images with their bytes",
    ),
    (lambda index, info, state: state.pop("_data_files"), "_data_files should be a list"),
    (lambda index, info, state: state.update(_data_files=[]), "_data_files should be a list"),
    (lambda index, info, state: state.update(_data_files=["a"]), "_data_files should be a list"),
    (lambda index, info, state: state.update(_data_files=[{}]), "a data file is called None"),
    (lambda index, info, state: state.update(_data_files=[{"filename": "/etc/passwd"}]), "called '/etc/passwd'"),
    (lambda index, info, state: state.update(_data_files=[{"filename": "gone.arrow"}]), "gone.arrow cannot be read"),
    (lambda index, info, state: state.update(_data_files=[{"filename": "state.json"}]), "not a complete Arrow stream"),
]


@pytest.mark.parametrize(("edit", "message"), WRONG_SHAPES)
def test_a_hugging_face_folder_of_the_wrong_shape(tmp_path: Path, edit: Edit, message: str) -> None:
    root = write_huggingface(tmp_path / "saved")
    files = [root / "dataset_dict.json", root / "validation/dataset_info.json", root / "validation/state.json"]
    values = [json.loads(file.read_text()) for file in files]
    edit(*values)
    for file, value in zip(files, values, strict=True):
        file.write_text(json.dumps(value))
    error = problem(lambda: containers.read_huggingface(str(root), wanted=BOTH))
    assert error is not None
    assert message in error


@pytest.mark.parametrize("name", ["dataset_dict.json", "train/state.json", "train/dataset_info.json"])
@pytest.mark.parametrize("text", ["[]", "null", "{", "\udcff", "[" * 100_000])
def test_a_hugging_face_file_that_is_not_an_object(tmp_path: Path, name: str, text: str) -> None:
    root = write_huggingface(tmp_path / "saved")
    (root / name).write_bytes(text.encode(errors="surrogateescape"))
    error = problem(lambda: containers.read_huggingface(str(root), wanted=BOTH))
    assert error is not None
    assert name in error


@pytest.mark.parametrize("kind", [pa.float64(), pa.string(), pa.int64()])
def test_hugging_face_labels_that_are_not_whole_numbers(tmp_path: Path, kind: pa.DataType) -> None:
    root = write_huggingface(tmp_path / "saved")
    file = root / "train/data-00000-of-00001.arrow"
    with pa.memory_map(str(file)) as source:
        table = pa.ipc.open_stream(source).read_all()
    labels = {pa.float64(): [1.9, 0.0, 1.0], pa.string(): ["a", "b", "c"], pa.int64(): [1, None, 0]}[kind]
    table = pa.table({"image": table["image"], "label": pa.array(labels, type=kind)})
    file.unlink()
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    error = problem(lambda: containers.read_huggingface(str(root), wanted=BOTH))
    assert error is not None
    assert "column 'label' should hold a whole number in every row" in error


@pytest.mark.parametrize("text", ["", "two", "-1", "1.5", "9" * 5_000, "²"])
def test_an_invalid_number_of_shards(tmp_path: Path, text: str) -> None:
    root = write_tars(tmp_path / "tars")
    (root / "test/nshards.txt").write_text(text, encoding="utf-8")
    error = problem(lambda: containers.read_webdataset(str(root), wanted=BOTH))
    assert error is not None
    assert "nshards.txt holds " in error


@pytest.mark.parametrize("label", [b"1.9", b"-1", b"9" * 5_000, b"10000000", "²".encode(), b""])
def test_an_invalid_label_in_a_tar(tmp_path: Path, label: bytes) -> None:
    root = write_tars(tmp_path / "tars")
    write_tar(root / "test/1.tar", {"a.png": png(1), "a.cls": label})
    error = problem(lambda: containers.read_webdataset(str(root), wanted=BOTH))
    assert error is not None
    assert "1.tar: a.cls holds " in error


@pytest.mark.parametrize("where", ["test/1.tar", "test/nshards.txt", "classnames.txt"])
@pytest.mark.parametrize("make", ["fifo", "folder", "loop"])
def test_a_webdataset_file_that_is_not_a_regular_file(tmp_path: Path, where: str, make: str) -> None:
    root = write_tars(tmp_path / "tars")
    (root / where).unlink()
    {"fifo": os.mkfifo, "folder": os.mkdir, "loop": lambda path: os.symlink(path, path)}[make](root / where)
    error = problem(lambda: containers.read_webdataset(str(root), wanted=BOTH))
    assert error is not None
    assert where in error


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "is not a CoOp split file"),
        (None, "is not a CoOp split file"),
        ({"test": {"a": 1}}, "is not a CoOp split file"),
        ({"test": [["a.jpg", 0]]}, "test holds ['a.jpg', 0]"),
        ({"test": [["a.jpg", 1.9, "cat"]]}, "label 1.9 is not a whole number"),
        ({"test": [["a.jpg", float("inf"), "cat"]]}, "label inf is not a whole number"),
        ({"test": [["a.jpg", float("nan"), "cat"]]}, "label nan is not a whole number"),
        ({"test": [["a.jpg", True, "cat"]]}, "label True is not a whole number"),
        ({"test": [["a.jpg", "0", "cat"]]}, "label 0 is not a whole number"),
        ({"test": [["a.jpg", 10**9, "cat"]]}, "label 1000000000 is not a whole number up to 1,000,000"),
        ({"test": [["a.jpg", 10**4000, "cat"]]}, "is not a whole number"),
        ({"test": [[7, 0, "cat"]]}, "test holds [7, 0, 'cat']"),
        ({"test": [["a.jpg", 0, None]]}, "test holds ['a.jpg', 0, None]"),
        ({"test": [["a\0.jpg", 0, "cat"]]}, "is not a file name"),
        ({"test": [["\ud800.jpg", 0, "cat"]]}, "is not a file name"),
        ({"test": [["a.jpg", 0, "\ud800"]]}, "holds a control character"),
    ],
)
def test_a_faulty_coop_split_file(tmp_path: Path, value: object, message: str) -> None:
    root = build_coop(tmp_path / "data", train=1, test=1)
    (root / "eurosat/split_zhou_EuroSAT.json").write_text(json.dumps(value))
    error = problem(lambda: coop.read("eurosat", root=str(root), wanted=("test",), imagenet_names=list))
    assert error is not None
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
JSON_ROWS = st.lists(st.dictionaries(NAMES, st.one_of(CELLS, st.lists(CELLS, max_size=2)), max_size=4), max_size=4)
QUIET = [HealthCheck.function_scoped_fixture]


@given(rows=JSON_ROWS)
@settings(max_examples=150, deadline=None, suppress_health_check=QUIET)
def test_any_json_list(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    (tmp_path / "list.json").write_text(json.dumps(rows))
    problem(read_list(tmp_path / "list.json"))


@given(header=st.lists(NAMES, max_size=4), rows=st.lists(st.lists(CELLS, max_size=4), max_size=4))
@settings(max_examples=150, deadline=None, suppress_health_check=QUIET)
def test_any_csv_list(tmp_path: Path, header: list[str], rows: list[list[Any]]) -> None:
    lines = [",".join(map(str, row)) for row in [header, *rows]]
    (tmp_path / "list.csv").write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    problem(read_list(tmp_path / "list.csv"))


@given(
    rows=st.dictionaries(st.sampled_from(["train", "test"]), st.one_of(CELLS, st.lists(st.lists(CELLS, max_size=3))))
)
@settings(max_examples=100, deadline=None, suppress_health_check=QUIET)
def test_any_split_file(tmp_path: Path, rows: dict[str, Any]) -> None:
    place = tmp_path / "eurosat"
    place.mkdir(exist_ok=True)
    (place / "split_zhou_EuroSAT.json").write_text(json.dumps(rows))
    problem(lambda: coop.read("eurosat", root=str(tmp_path), wanted=("test",), imagenet_names=list))


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
