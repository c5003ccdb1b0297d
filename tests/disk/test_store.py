"""Atomic writes and file formats."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from project import ROOT

from wsoup.base.errors import MismatchError, MissingError, StorageError
from wsoup.disk import cache_folder, checksums, store
from wsoup.disk.checked import read_checked, write_checked
from wsoup.towers.features import ROWS_PER_SHARD, ImageFeatures, open_features, read_features, write_features

ENCODER = {"model": "m", "pretrained": "p", "config": "c", "weights": "w", "quick_gelu": False, "precision": "fp32"}


def some_features(n: int = 10) -> ImageFeatures:
    features = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    attributes = {"encoder": ENCODER, "class_names": ["a", "b"], "template": "a photo of a {}."}
    return ImageFeatures(features, np.arange(n) % 2, np.arange(n) + 100, attributes)


def digest(folder: Path) -> str:
    """One hash of all files under a folder, with their names."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return hashlib.sha256(b"".join(str(f.relative_to(folder)).encode() + f.read_bytes() for f in files)).hexdigest()


@pytest.mark.parametrize("n", [0, 1, 10, 5000])
def test_features_are_read_as_written(tmp_path, n):
    written = some_features(n)
    write_features(tmp_path / "x.zarr", written)
    read = read_features(tmp_path / "x.zarr", encoder=ENCODER)
    assert len(list((tmp_path / "x.zarr").rglob("c/*"))) <= 3, "one file an array"
    assert np.array_equal(read.features, written.features)
    assert read.labels.tolist() == written.labels.tolist()
    assert read.rows.tolist() == written.rows.tolist()
    assert read.class_names == ["a", "b"]


def test_opened_features_are_those_that_are_read_and_at_most_a_shard_is_held(tmp_path, monkeypatch):
    n = 2 * ROWS_PER_SHARD + 5
    write_features(tmp_path / "x.zarr", some_features(n))
    sizes = []
    get = zarr.Array.__getitem__

    def spy(array, rows):
        values = get(array, rows)
        if values.ndim == 2:
            sizes.append(len(values))
        return values

    monkeypatch.setattr(zarr.Array, "__getitem__", spy)
    opened = open_features(tmp_path / "x.zarr", encoder=ENCODER)
    assert sizes == [ROWS_PER_SHARD, ROWS_PER_SHARD, 5], "all are checked, a shard at a time"
    assert opened.features.shape == (n, 4)
    block = opened.features[4090:4100]
    assert sizes[3:] == [10]
    assert np.array_equal(block, some_features(n).features[4090:4100])
    assert np.array_equal(opened.features[:], read_features(tmp_path / "x.zarr").features)
    assert np.array_equal(opened.labels, some_features(n).labels)


def test_the_same_features_are_the_same_bytes(tmp_path):
    for name in ("x.zarr", "y.zarr"):
        write_features(tmp_path / name, some_features())
    assert digest(tmp_path / "x.zarr") == digest(tmp_path / "y.zarr")


TESTED = {"zarr": "3.1.6", "numcodecs": "0.16.6", "pyarrow": "26.0.1"}
"""Versions that compress (constraints.txt); another one may give other bytes, so that DVC runs all stages again."""


def test_the_versions_whose_bytes_are_known_are_those_of_the_constraints():
    """A bump of one of them needs `TESTED` and the digests below anew; else the next test would be skipped for ever."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    assert {name: pinned[name] for name in TESTED} == TESTED


@pytest.mark.skipif({name: version(name) for name in TESTED} != TESTED, reason="other versions compress in another way")
def test_the_bytes_of_files_are_those_of_the_last_release(tmp_path):
    features = np.arange(40, dtype=np.float32).reshape(10, 4) / 7
    write_features(tmp_path / "x.zarr", ImageFeatures(features, np.arange(10), np.arange(10), {"encoder": ENCODER}))
    store.write_table(tmp_path / "x/y.parquet", pa.table({"a": [1, 2], "b": ["x", "y"]}), attributes={"k": 1})
    assert digest(tmp_path / "x.zarr") == "67262e9d9e1a7533e1076a6b2819419f906c0018da00c925f2d8844b508a2dd7"
    assert digest(tmp_path / "x") == "ce941f76c2410efbb8204a23f3ed463daae8afa24ce3642325aa23fdfbed79cb"


def test_features_of_another_encoder_are_refused_naming_both(tmp_path):
    write_features(tmp_path / "x.zarr", some_features())
    with pytest.raises(MismatchError, match="'m', expected 'ViT-B-16'"):
        read_features(tmp_path / "x.zarr", encoder={**ENCODER, "model": "ViT-B-16"})
    with pytest.raises(MismatchError, match=r"\(context: None, expected 77\)"):
        read_features(tmp_path / "x.zarr", encoder={**ENCODER, "context": 77})


def files_of(store_folder: Path) -> list[str]:
    return sorted(str(path.relative_to(store_folder)) for path in store_folder.rglob("*") if path.is_file())


def test_a_missing_or_damaged_file_is_an_error_and_never_zeros(tmp_path):
    whole = tmp_path / "x.zarr"
    write_features(whole, some_features())
    assert files_of(whole) == [
        *("image_features/c/0/0", "image_features/zarr.json", "labels/c/0", "labels/zarr.json"),
        *("rows/c/0", "rows/zarr.json", "zarr.json"),
    ]
    for name in files_of(whole):
        data = (whole / name).read_bytes()
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        for spoilt in (None, b"", data[:middle], b"<html>", flipped):
            (whole / name).unlink()
            if spoilt is not None:
                (whole / name).write_bytes(spoilt)
            with pytest.raises(MismatchError, match=r"x.zarr.*; remove it and run `dvc repro` to make it again"):
                read_features(whole)
            with pytest.raises(MismatchError, match=r"x.zarr.*; remove it and run `dvc repro` to make it again"):
                open_features(whole)
            (whole / name).write_bytes(data)
    assert read_features(whole).rows.tolist() == some_features().rows.tolist()


UNREADABLE = "cannot be read as image features"
ZARR: dict[str, tuple[str, Callable[[dict[str, Any]], object], str]] = {
    "no checksums": ("", lambda group: group["attributes"].pop("checksums"), "'checksums'"),
    "no checksum of an array": ("", lambda group: group["attributes"]["checksums"].pop("rows"), "checksum of rows"),
    "another class name": ("", lambda group: group["attributes"].update(class_names=["b"]), "checksum of attributes"),
    "Zarr 2": ("", lambda group: group.update(zarr_format=2), UNREADABLE),
    "no group": ("", lambda group: group.update(node_type="array"), UNREADABLE),
    "more rows": ("labels", lambda array: array.update(shape=[11]), "checksum of labels differs"),
    "rows without end": ("labels", lambda array: array.update(shape=[1 << 60]), UNREADABLE),
    "features without end": ("image_features", lambda array: array.update(shape=[1 << 60, 4]), UNREADABLE),
    "no rows": ("labels", lambda array: array.update(shape=[-1]), UNREADABLE),
    "wider features": ("image_features", lambda array: array.update(shape=[4, 10]), "image_features differs"),
    "another type": ("labels", lambda array: array.update(data_type="float64"), "checksum of labels differs"),
    "an unknown type": ("labels", lambda array: array.update(data_type="int63"), UNREADABLE),
    "no codecs": ("labels", lambda array: array.update(codecs=[]), UNREADABLE),
}


@pytest.mark.parametrize("read", [read_features, open_features])
@pytest.mark.parametrize("edit", ZARR)
def test_hand_edited_features_are_one_line(tmp_path, edit, read):
    name, change, message = ZARR[edit]
    write_features(tmp_path / "x.zarr", some_features())
    file = tmp_path / "x.zarr" / name / "zarr.json"
    metadata = json.loads(file.read_text())
    change(metadata)
    file.write_text(json.dumps(metadata))
    with pytest.raises(MismatchError, match=r"x.zarr.*; remove it and run `dvc repro` to make it again") as error:
        read(tmp_path / "x.zarr")
    assert message in str(error.value)
    assert str(error.value).isprintable()


def test_json_is_utf8_with_sorted_keys(tmp_path):
    store.write_json(tmp_path / "x.json", {"b": "café", "a": 1})
    assert (tmp_path / "x.json").read_bytes() == '{\n  "a": 1,\n  "b": "café"\n}\n'.encode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"a": NaN}', "expected value"),
        (b'{"a": -Infinity}', "invalid number"),
        (b'{"a": "\xff"}', "invalid unicode"),
        (b"[" * 100_000, "recursion"),
        (b"9" * 5_000, "number out of range"),
        (b"{", "EOF while parsing"),
    ],
)
def test_faulty_json_is_one_line(tmp_path, text, message):
    (tmp_path / "x.json").write_bytes(text)
    with pytest.raises(MismatchError, match=rf"x.json is not JSON \(.*{message}.*\); make it again with `dvc repro`"):
        store.read_json(tmp_path / "x.json")


def test_an_object_without_a_key_names_its_file(tmp_path):
    store.write_json(tmp_path / "x.json", {"a": 1})
    with pytest.raises(MismatchError, match=r"x.json does not say its b: it is another file"):
        store.read_object(tmp_path / "x.json")["b"]
    store.write_json(tmp_path / "x.json", {"a": [{"b": {"c": 1}}]})
    inner = store.read_object(tmp_path / "x.json")["a"][0]["b"]
    assert inner == {"c": 1}
    with pytest.raises(MismatchError, match=r"x.json does not say its d: it is another file"):
        inner["d"]
    store.write_json(tmp_path / "x.json", [])
    with pytest.raises(MismatchError, match=r"x.json does not hold a JSON object"):
        store.read_object(tmp_path / "x.json")


def test_a_fingerprint_does_not_depend_on_the_order_of_keys():
    assert store.fingerprint({"a": 1, "b": [2]}) == store.fingerprint({"b": [2], "a": 1}) != store.fingerprint({"a": 1})


@pytest.mark.parametrize("spoil", [lambda data: b"", lambda data: data[:-9], lambda data: b"<html>"])
def test_a_damaged_table_is_one_clear_error(tmp_path, spoil):
    path = tmp_path / "x.parquet"
    store.write_table(path, pa.table({"text": ["b", "a"]}), attributes={"a": 1})
    path.write_bytes(spoil(path.read_bytes()))
    for read in (store.read_table, store.table_attributes):
        with pytest.raises(MismatchError, match=r"x.parquet cannot be read as Parquet \(.*; remove it and run"):
            read(path)


def test_a_flipped_bit_of_a_table_is_noticed_or_changes_nothing(tmp_path):
    """Parquet's own statistics and names of programs may be damaged: nobody reads them."""
    path = tmp_path / "x.parquet"
    draw = np.random.default_rng(0)
    table = pa.table({"text": [f"word {i}" for i in range(50)], "n_correct": draw.integers(90, size=50)})
    about = {"encoder": {"weights": "1f"}, "pool": "words"}
    store.write_table(path, table, attributes=about)
    whole = path.read_bytes()
    noticed = 0
    for i in range(4, len(whole), 3):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ (1 << i % 8)]) + whole[i + 1 :])
        try:
            read, attributes = store.read_table(path), store.table_attributes(path)
        except MismatchError:
            noticed += 1
            continue
        assert (read.to_pydict(), dict(attributes)) == (table.to_pydict(), about), i
    assert noticed > len(whole) / 3 / 2


def test_a_damaged_column_is_named_when_it_is_read(tmp_path):
    path = tmp_path / "x.parquet"
    store.write_table(path, pa.table({"text": ["b", "a"], "k2": [0.5, float("nan")]}))
    damaged = pq.read_table(path).set_column(0, "text", pa.array(["b", "A"]))
    pq.write_table(damaged, path)
    with pytest.raises(MismatchError, match=r"column text is damaged: its checksum differs\); remove it and run"):
        store.read_table(path)
    assert store.read_table(path, columns=["k2"]).num_rows == 2
    pq.write_table(damaged.drop_columns("text"), path)
    with pytest.raises(MismatchError, match=r"columns are missing or renamed\); remove it and run"):
        store.read_table(path)


def test_a_table_without_checksums_is_refused(tmp_path):
    """Or a flipped bit in the key of the checksums would be a way around them."""
    path = tmp_path / "x.parquet"
    store.write_table(path, pa.table({"text": ["b", "a"]}), attributes={"a": 1})
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata)
    metadata[b"wsoup checksumr"] = metadata.pop(store.CHECKSUMS.encode())
    pq.write_table(table.replace_schema_metadata(metadata), path)
    for read in (store.read_table, store.table_attributes):
        with pytest.raises(
            MismatchError, match=r"x\.parquet .*\(it has no checksums: .*; remove it and run `dvc repro`"
        ):
            read(path)


def one_column(values, **options):
    return checksums.of_columns(pa.table({"x": pa.array(values, **options)}))["x"]


@pytest.mark.parametrize(
    "values",
    [
        ["b", "", None, "aé"],
        [b"b", None],
        [[1, 2], [], None, [3]],
        [0.5, None, float("nan")],
        [True, None],
        [None, None],
    ],
)
def test_equal_values_have_equal_checksums(tmp_path, values):
    """However they are cut into chunks, and after Parquet, which renames the items of a list."""
    whole = pa.array(values)
    expected = one_column(values)
    sliced = pa.concat_arrays([whole, whole]).slice(1, len(values))
    rotated = pa.array([*values[1:], values[0]])
    assert checksums.of_columns(pa.table({"x": sliced})) == checksums.of_columns(pa.table({"x": rotated}))
    chunks = pa.chunked_array([whole.slice(i, 1) for i in range(len(values))] + [whole.slice(0, 0)])
    store.write_table(tmp_path / "x.parquet", pa.table({"x": chunks}))
    for column in (chunks, store.read_table(tmp_path / "x.parquet")["x"]):
        assert checksums.of_columns(pa.table({"x": column})) == {"x": expected}


def test_how_values_are_encoded_does_not_matter():
    texts = ["b", "a", None, "b"]
    for type_ in (pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        assert one_column(texts, type=type_) == one_column(texts)
    # A null may hide a value.
    shown = np.array([True, False, True, True])
    hidden = pa.Array.from_buffers(
        pa.string(),
        4,
        [pa.py_buffer(np.packbits(shown, bitorder="little")), *pa.array(["a", "b", "c", "d"]).buffers()[1:]],
    )
    assert one_column(hidden) == one_column(["a", None, "c", "d"])
    assert one_column(pa.array([7, 8], mask=np.array([False, True]))) == one_column([7, None])


def test_different_values_have_different_checksums():
    columns = [[1], [1.0], ["1"], [b"1"], [True], [None], [], [""], [0], [[]], [[None]], [[1], [2]], [[1, 2], []]]
    columns += [["a", "bc"], ["ab", "c"], [None, "ab"], ["ab", None], ["", "ab"]]
    types = [pa.list_(pa.int64()) if values and isinstance(values[0], list) else None for values in columns]
    digests = [one_column(values, type=type_) for values, type_ in zip(columns, types, strict=True)]
    assert len({*digests}) == len(columns)


def test_checksums_are_those_of_the_last_release():
    """They depend on no library; another value here makes all tables of earlier runs unreadable."""
    assert one_column(["b", None, "aé"]) == "89b215f18e76dc072de4e2e80212d613f5b9fcc99f28fc5c5752d0f614c03bf9"
    lists = one_column([[1, 2], None, []], type=pa.list_(pa.int64()))
    assert lists == "7b0cc1a95908d041396945e0b24fd37a5dbe22d1ee6fa075af93ec46fc33035d"


def test_a_column_of_another_kind_is_refused_when_it_is_written(tmp_path):
    with pytest.raises(TypeError, match="no checksum is defined of values of type struct"):
        store.write_table(tmp_path / "x.parquet", pa.table({"x": [{"a": 1}]}))


def test_a_table_that_another_program_wrote_is_refused(tmp_path):
    """As after an edit by hand in pandas: its columns may be of any type."""
    pq.write_table(pa.table({"text": ["b", "a"]}), tmp_path / "x.parquet")
    with pytest.raises(
        MismatchError, match=r"x.parquet cannot be read as Parquet \(another program wrote it\); remove it"
    ):
        store.read_table(tmp_path / "x.parquet")


def test_a_missing_column_is_one_clear_error(tmp_path):
    store.write_table(tmp_path / "x.parquet", pa.table({"text": ["b", "a"]}))
    with pytest.raises(MismatchError, match=r"cannot be read as Parquet \(.*seed"):
        store.read_table(tmp_path / "x.parquet", columns=["seed"])


def test_checked_bytes_are_read_as_written_or_are_an_error(tmp_path):
    path = tmp_path / "x"
    for payload in (b"", b"\n", bytes(range(256))):
        write_checked(path, payload)
        assert read_checked(path) == payload
    whole = path.read_bytes()
    damaged = [whole[:i] for i in range(0, len(whole), 7)]
    damaged += [whole[:i] + bytes([whole[i] ^ 4]) + whole[i + 1 :] for i in range(0, len(whole), 7)]
    damaged += [whole + b"x", b"<html>"]
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(MismatchError, match="x is damaged: its checksum is not that of its bytes"):
            read_checked(path)
    path.unlink()
    with pytest.raises(MissingError, match="x does not exist"):
        read_checked(path)


def test_a_flipped_bit_of_a_checked_object_is_noticed_or_changes_nothing(tmp_path):
    path = tmp_path / "x.json"
    value = {"datasets": [{"name": "é", "rate": 1e-4}, {"name": None}], "counts": {"2": 1, "10": 0.1}}
    # Numbers as keys become texts, which sort in another way.
    store.write_checked_object(path, {**value, "counts": {2: 1, 10: 0.1}})
    assert store.read_checked_object(path) == value
    whole = path.read_bytes()
    noticed = 0
    for i in range(8 * len(whole)):
        byte, bit = divmod(i, 8)
        path.write_bytes(whole[:byte] + bytes([whole[byte] ^ (1 << bit)]) + whole[byte + 1 :])
        try:
            assert store.read_checked_object(path) == value
        except MismatchError:
            noticed += 1
    assert noticed > 4 * len(whole)


def test_an_object_without_a_checksum_is_refused(tmp_path):
    store.write_json(tmp_path / "x.json", {"a": 1})
    with pytest.raises(MismatchError, match=r"x\.json has no checksum: .*; make it again with `dvc repro`"):
        store.read_checked_object(tmp_path / "x.json")


def test_errors_for_missing_files_name_the_stage(tmp_path):
    with pytest.raises(MissingError, match=r"made by stage 'embed': run `dvc repro`"):
        read_features(tmp_path / "x.zarr")
    with pytest.raises(MissingError, match="dvc repro fewshot"):
        store.require(tmp_path / "x", made_by="fewshot")
    with pytest.raises(FileNotFoundError):
        store.read_table(tmp_path / "x.parquet")


def test_a_failed_write_keeps_the_old_file_and_no_temporary_one(tmp_path):
    store.write_json(tmp_path / "x.json", {"a": 1})

    def fail_half_way() -> None:
        with store.replacing(tmp_path / "x.json") as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert store.read_json(tmp_path / "x.json") == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_an_interrupt_is_not_hidden_by_a_thread_that_still_writes(tmp_path):
    """Zarr's threads do so for a moment: a folder that they fill again cannot be removed."""
    ended = threading.Event()

    def write(folder: Path) -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "more").touch()

    def interrupted() -> None:
        with store.replacing(tmp_path / "out.zarr") as temporary:
            for name in "abcd":
                threading.Thread(target=write, args=(temporary / name,)).start()
            time.sleep(0.1)
            raise KeyboardInterrupt

    for _ in range(5):
        ended.clear()
        try:
            with pytest.raises(KeyboardInterrupt):
                interrupted()
        finally:
            ended.set()
    assert not (tmp_path / "out.zarr").exists()


def test_tables_keep_their_attributes_and_bytes(tmp_path):
    """Also in a folder whose name pyarrow would read as a column."""
    table, x = pa.table({"text": ["b", "a"], "n_correct": [1, 2]}), tmp_path / "seed=1/x.parquet"
    store.write_table(x, table, attributes={"encoder": ENCODER, "a": 1})
    store.write_table(tmp_path / "y.parquet", table, attributes={"a": 1, "encoder": ENCODER})
    assert store.table_attributes(x) == {"encoder": ENCODER, "a": 1}
    assert store.read_table(x, columns=["text"])["text"].to_pylist() == ["b", "a"]
    assert store.read_table(x).column_names == ["text", "n_correct"]
    assert x.read_bytes() == (tmp_path / "y.parquet").read_bytes()


def test_tables_are_written_in_groups_of_100_000_rows(tmp_path):
    store.write_table(tmp_path / "x.parquet", pa.table({"a": np.zeros(250_000, np.int8)}))
    about = pq.read_metadata(tmp_path / "x.parquet")
    assert [about.row_group(i).num_rows for i in range(about.num_row_groups)] == [100_000, 100_000, 50_000]


def test_a_folder_that_cannot_be_replaced_stays(tmp_path, monkeypatch):
    def fail_once(old: Path, new: Path) -> None:
        if new == tmp_path / "out" and len(list(tmp_path.iterdir())) == 2:  # the new one and the old one, both aside
            monkeypatch.setattr(os, "replace", replace)
            raise OSError(errno.EIO, "Input/output error")
        replace(old, new)

    (tmp_path / "out").mkdir()
    (tmp_path / "out/old").touch()
    replace = os.replace
    monkeypatch.setattr(os, "replace", fail_once)
    with pytest.raises(StorageError, match="Input/output error"), store.replacing(tmp_path / "out") as new:
        new.mkdir()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["out", "out/old"]
    with store.replacing(tmp_path / "out") as new:
        new.mkdir()
    assert [path.name for path in tmp_path.rglob("*")] == ["out"]


# -------------------------------------------------------------------------------------------------- power cuts


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_files_are_synced_before_they_are_renamed(tmp_path, monkeypatch, kind):
    calls, replace, fsync = [], os.replace, os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda number: (calls.append(os.readlink(f"/proc/self/fd/{number}")), fsync(number))
    )
    monkeypatch.setattr(os, "replace", lambda old, new: (calls.append("renamed"), replace(old, new)))
    with store.replacing(tmp_path / "out") as new:
        if kind == "folder":
            (new / "inner").mkdir(parents=True)
        (new / "inner/data" if kind == "folder" else new).write_text("all of it")
    inner = [f"{new}/inner/data", f"{new}/inner"] if kind == "folder" else []
    assert sorted(calls[:-3]) == sorted(inner), "in any order"
    assert calls[-3:] == [str(new), "renamed", str(tmp_path)]


@pytest.mark.parametrize(
    ("number", "ends"), [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EBADF, False), (errno.EIO, True)]
)
def test_a_failing_disk_is_an_error_and_one_without_sync_is_not(tmp_path, monkeypatch, number, ends):
    def refuse(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageError, match="Input/output error") if ends else contextlib.nullcontext():
        store.write_json(tmp_path / "out.json", {})
    assert (tmp_path / "out.json").exists() != ends


def test_an_encoder_with_more_to_its_id_is_another_one():
    """Tuned weights are the pretrained encoder's id and more."""
    pretrained = {"model": "ViT-B-16", "pretrained": "openai"}
    tuned = pretrained | {"method": "coop", "seed": 1}
    store.check_encoder(tuned, expected=dict(reversed(tuned.items())), where="x")
    for actual, expected in ((tuned, pretrained), (pretrained, tuned)):
        with pytest.raises(MismatchError, match=r"x was made with another encoder \(method: .*, seed: "):
            store.check_encoder(actual, expected=expected, where="x")


def test_a_checksum_of_arrays_is_of_their_names_types_and_shapes_too():
    zeros = np.zeros((2, 3), dtype=np.float32)
    others = [
        {"b": zeros},
        {"a": zeros.reshape(3, 2)},
        {"a": zeros.view(np.int32)},
        {"a": zeros, "b": zeros},
    ]
    digests = {checksums.of_arrays(arrays) for arrays in [{"a": zeros}, *others]}
    assert len(digests) == 5


def test_a_checksum_of_arrays_does_not_depend_on_the_order_of_names():
    zeros = np.zeros(2, dtype=np.float32)
    ones = np.ones(2, dtype=np.float32)
    assert checksums.of_arrays({"a": zeros, "b": ones}) == checksums.of_arrays({"b": ones, "a": zeros})


def make_folder(path: Path) -> None:
    with store.replacing(path) as temporary:
        temporary.mkdir()


def test_nothing_is_written_through_a_link_to_a_folder(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "artifacts").symlink_to(tmp_path / "disk")
    with pytest.raises(StorageError, match="artifacts is a symbolic link to a folder"):
        make_folder(tmp_path / "artifacts")
    assert list((tmp_path / "disk").iterdir()) == []


def test_a_users_cache_folder_is_wsoups_own_only_if_wsoup_made_it(tmp_path, monkeypatch):
    """In a folder of its own inside the one that the user names, and never marked if it holds something already."""
    monkeypatch.setenv("WSOUP_CACHE", str(tmp_path / "mine"))
    folder = tmp_path / "mine/wsoup-cache"
    assert cache_folder.cache_dir() == folder
    folder.mkdir(parents=True)
    (folder / "letter.txt").touch()
    cache_folder.make_cache_dir()
    assert sorted(path.name for path in folder.iterdir()) == ["letter.txt"]
    (folder / "letter.txt").unlink()
    cache_folder.make_cache_dir()
    assert [path.name for path in folder.iterdir()] == [cache_folder.CACHE_MARK]
