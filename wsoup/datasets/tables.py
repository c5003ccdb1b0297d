"""A list of images in a CSV, TSV, Parquet or JSON file: columns path, label and/or class_name, and split.

Without a split column every image is a test image. Labels alone need a file of class names (`class_names` in params:
one per line, in label order); class names alone get labels in sorted order.
"""

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from wsoup.base import remote
from wsoup.base.errors import DataError, MissingError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.folder import read_json, read_lines, require_folder
from wsoup.datasets.listing import LARGEST_LABEL, Listing, Split, names_by_label, relative
from wsoup.disk.files import reason_of

EXPECTED = "columns path, label and/or class_name, split"
COLUMNS = {"path": pa.string(), "label": pa.int64(), "class_name": pa.string(), "split": pa.string()}
SPLIT_NAMES = {"validation": "val", "valid": "val", "training": "train", "testing": "test"}


def read(file: str, *, root: str, wanted: Collection[str], class_names: str | None = None) -> Listing:
    """List the images that a table names.

    Args:
        file: the table, relative to `root` or absolute; local where root is a URL. Its suffix says its format.
        root: folder that the table's paths are relative to, or a URL.
        wanted: the splits to list.
        class_names: file with one class name per line, in label order; or None.

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
    split_names = table["split"].to_pylist() if "split" in table.column_names else ["test"] * table.num_rows
    split_of_row = np.array([SPLIT_NAMES.get(name, name) for name in split_names], dtype=object)
    paths = [relative(p, origin=str(path)) for p in table["path"].to_pylist()]
    splits = {}
    for name in sorted(set(split_of_row.tolist()) & set(wanted)):
        rows = np.flatnonzero(split_of_row == name)
        splits[name] = Split([paths[i] for i in rows], labels[rows])
    return Listing(root, names, splits, origin=str(path))


def read_name_list(path: Path) -> list[str]:
    """Class names, one per line, in label order.

    Raises:
        MissingError: no such file.
    """
    lines = read_lines(path, hint="expected one class name per line, in label order")
    return [clean_class_name(line) for line in lines]


def _load(path: Path) -> pa.Table:
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".parquet", ".json"):
        raise DataError(f"{path}: expected a .csv, .tsv, .parquet or .json file")
    try:
        if suffix == ".parquet":
            table = pq.read_table(path, partitioning=None)
        elif suffix == ".json":
            table = _load_json(path)
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


def _load_json(path: Path) -> pa.Table:
    """A JSON list of objects; keys that a row lacks are null."""
    rows = read_json(path, expected=f"a list of rows with {EXPECTED}")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f'{path} is not a list of rows; expected [{{"path": ..., "class_name": ...}}, ...]')
    keys = {key for row in rows for key in row}
    return pa.table({name: [row.get(name) for row in rows] for name in COLUMNS if name in keys})


def _typed(table: pa.Table, *, path: Path) -> pa.Table:
    """The known columns, cast to their types; DataError where one is missing, repeated or has empty cells."""
    names = table.column_names
    if "path" not in names or not {"label", "class_name"} & set(names):
        raise DataError(
            f"{path} has columns {', '.join(map(repr, names))[:200]}; expected path, label and/or class_name, split "
            "(a CSV needs a header line that names them)"
        )
    columns: dict[str, pa.ChunkedArray] = {}
    for name in [name for name in COLUMNS if name in names]:
        if names.count(name) > 1:
            raise DataError(f"{path} has {names.count(name)} columns called {name!r}; keep one of them")
        column = table[name]
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise DataError(f"{path}: row {row + 1} has no {name}; fill it in or remove the row")
        try:
            if name == "label" and pa.types.is_boolean(column.type):
                raise pa.ArrowInvalid("they are true and false")
            columns[name] = column.cast(COLUMNS[name])
        except pa.ArrowException as error:
            raise DataError(f"{path}: column {name} should hold {COLUMNS[name]} values ({reason_of(error)})") from None
    if table.num_rows == 0:
        raise DataError(f"{path} lists no images")
    largest = pc.max(columns["label"]).as_py() if "label" in columns else 0
    if largest > LARGEST_LABEL:
        raise DataError(f"{path}: label {largest} is beyond {LARGEST_LABEL:,}; labels count from 0 without gaps")
    return pa.table(columns)


def _labels(table: pa.Table, *, path: Path, class_names: str | None) -> tuple[list[str], np.ndarray]:
    """Class names in label order, and (N,) labels."""
    if class_names is not None:
        names = read_name_list(Path(class_names))
        if "label" in table.column_names:
            return names, table["label"].to_numpy()
        return names, _positions(table["class_name"], names=names, origin=f"{path}: {class_names}")
    if "label" not in table.column_names:
        names = sorted(pc.unique(table["class_name"]).to_pylist())
        return [clean_class_name(name) for name in names], _positions(table["class_name"], names=names, origin="")
    if "class_name" not in table.column_names:
        raise DataError(
            f"{path} has labels but no class names; add a column class_name, or set class_names to a file with one "
            "class name per line"
        )
    pairs = table.group_by(["label", "class_name"]).aggregate([])
    ordered = sorted(zip(pairs["label"].to_pylist(), pairs["class_name"].to_pylist(), strict=True))
    return names_by_label(ordered, origin=str(path)), table["label"].to_numpy()


def _positions(column: pa.ChunkedArray, *, names: list[str], origin: str) -> np.ndarray:
    """(N,) int64 position of each class name in `names`."""
    positions = pc.index_in(column, pa.array(names))
    if positions.null_count:
        row = pc.index(positions.is_null(), True).as_py()
        raise DataError(f"{origin} lacks class {column[row].as_py()!r}; add it, or correct the row")
    return positions.to_numpy().astype(np.int64)
