"""A list of images in a CSV, Parquet or JSON file: columns path, label and/or class_name, and split.

Without a split column every image is a test image. Labels alone need class names from a file (`class_names` in params:
one line a label, in order); class names alone get labels in sorted order.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from wsoup.core.disk import remote
from wsoup.core.disk.files import read_text, reason_of
from wsoup.core.errors import DataError, MissingError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.folder import read_json, require_folder
from wsoup.datasets.listing import LARGEST_LABEL, Listing, Split, names_by_label, relative

EXPECTED = "columns path, label and/or class_name, split"
COLUMNS = {"path": pa.string(), "label": pa.int64(), "class_name": pa.string(), "split": pa.string()}
SPLIT_NAMES = {"validation": "val", "valid": "val", "training": "train", "testing": "test"}


def read(file: str, *, root: str, wanted: Collection[str], class_names: str | None = None) -> Listing:
    """List the images that a table names.

    Args:
        file: the table, relative to `root` or absolute; its suffix says what it is. Where root is a URL it lies here.
        root: folder that the table's paths are relative to, or a URL.
        wanted: the splits to list.
        class_names: file with one class name a line, in label order; or None.

    Raises:
        MissingError: no such folder or file.
        DataError: no header, missing columns, a value of the wrong type, a path that leaves the root, labels and
            class names that disagree.
    """
    path = Path(file) if remote.is_remote(root) else require_folder(root) / file
    if not path.is_file():
        raise MissingError(f"{path} does not exist; correct the file in layout 'manifest:{file}' (relative to root)")
    table = _typed(_load(path), path=path)
    names, labels = _labels(table, path=path, class_names=class_names)
    if "split" in table.column_names:
        split = np.array([SPLIT_NAMES.get(name, name) for name in table["split"].to_pylist()], dtype=object)
    else:
        split = np.full(table.num_rows, "test", dtype=object)
    paths = [relative(p, origin=str(path)) for p in table["path"].to_pylist()]
    splits = {}
    for name in sorted(set(split.tolist()) & set(wanted)):
        members = np.flatnonzero(split == name)
        splits[name] = Split([paths[i] for i in members], labels[members])
    return Listing(root, names, splits, origin=str(path))


def _load(path: Path) -> pa.Table:
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".parquet", ".json"):
        raise DataError(f"{path}: expected a .csv, .tsv, .parquet or .json file")
    try:
        if suffix == ".parquet":
            table = pq.read_table(path, partitioning=None)
        elif suffix == ".json":
            table = _from_rows(read_json(path, expected=f"a list of rows with {EXPECTED}"), path=path)
        else:
            table = pa_csv.read_csv(
                path,
                parse_options=pa_csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ","),
                convert_options=pa_csv.ConvertOptions(column_types=COLUMNS),
            )
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError, OverflowError, UnicodeError) as error:
        raise DataError(
            f"{path} cannot be read as a list of images ({reason_of(error)}); expected {EXPECTED}, with a header "
            "line in CSV"
        ) from None


def _from_rows(rows: Any, *, path: Path) -> pa.Table:
    """A table from a JSON list of objects; a key that some lack is empty there."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f'{path} is not a list of rows; expected [{{"path": ..., "class_name": ...}}, ...]')
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in names if name in COLUMNS})


def _typed(table: pa.Table, *, path: Path) -> pa.Table:
    """The known columns with their types, checked for what must be there."""
    there = table.column_names
    if "path" not in there or not {"label", "class_name"} & set(there):
        raise DataError(
            f"{path} has columns {', '.join(map(repr, there))[:200]}; expected path, label and/or class_name, split "
            "(a CSV needs a header line that names them)"
        )
    for name in COLUMNS:
        if there.count(name) > 1:
            raise DataError(f"{path} has {there.count(name)} columns called {name!r}; keep one of them")
    columns: dict[str, Any] = {}
    for name, kind in COLUMNS.items():
        if name not in there:
            continue
        column = table[name]
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise DataError(f"{path}: row {row + 1} has no {name}; fill it in or remove the row")
        try:
            if name == "label" and pa.types.is_boolean(column.type):
                raise pa.ArrowInvalid("they are true and false")
            columns[name] = column.cast(kind)
        except pa.ArrowException as error:
            raise DataError(f"{path}: column {name} should hold {kind} values ({reason_of(error)})") from None
    if table.num_rows == 0:
        raise DataError(f"{path} lists no images")
    if "label" in columns and pc.max(columns["label"]).as_py() > LARGEST_LABEL:
        largest = pc.max(columns["label"]).as_py()
        raise DataError(f"{path}: label {largest} is beyond {LARGEST_LABEL:,}; labels count from 0 without gaps")
    return pa.table(columns)


def _labels(table: pa.Table, *, path: Path, class_names: str | None) -> tuple[list[str], np.ndarray]:
    """Class names in label order, and (N,) labels."""
    if class_names is not None:
        names = read_name_list(Path(class_names))
        if "label" in table.column_names:
            return names, table["label"].to_numpy()
        return names, _positions(table["class_name"], names=names, origin=f"{path}: {class_names} lacks")
    if "label" not in table.column_names:
        names = sorted(pc.unique(table["class_name"]).to_pylist())
        return [clean_class_name(name) for name in names], _positions(table["class_name"], names=names, origin="")
    if "class_name" not in table.column_names:
        raise DataError(
            f"{path} has labels but no class names; add a column class_name, or name a file with one class name a line "
            "in class_names"
        )
    pairs = table.group_by(["label", "class_name"]).aggregate([])
    ordered = sorted(zip(pairs["label"].to_pylist(), pairs["class_name"].to_pylist(), strict=True))
    return names_by_label(ordered, origin=str(path)), table["label"].to_numpy()


def _positions(column: pa.ChunkedArray, *, names: list[str], origin: str) -> np.ndarray:
    places = pc.index_in(column, pa.array(names))
    if places.null_count:
        row = pc.index(places.is_null(), True).as_py()
        raise DataError(f"{origin} class {column[row].as_py()!r}; add it, or correct the row")
    return places.to_numpy().astype(np.int64)


def read_name_list(path: Path) -> list[str]:
    """Class names, one a line, in label order.

    Raises:
        MissingError: no such file.
    """
    if not path.is_file():
        raise MissingError(f"{path} does not exist; expected one class name a line, in label order")
    return [clean_class_name(line) for line in read_text(path).split("\n") if line.strip()]
