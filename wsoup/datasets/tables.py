"""A list of images in a CSV, TSV, Parquet or JSON file: columns path, label and/or class_name, and split.

Without a split column every image is a test image. Labels alone need a file of class names (`class_names` in params:
one per line, in label order); class names alone get labels in sorted order.
"""

from collections.abc import Collection
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from wsoup.base import remote
from wsoup.base.errors import DataError, MissingError
from wsoup.datasets.folder import read_lines, require_folder
from wsoup.datasets.listing import Label, Listing, listed, read_json, refusing, relative
from wsoup.disk.files import reason_of

EXPECTED = "columns path, label and/or class_name, split (a CSV needs a header line that names them)"
CSV_TYPES = {"path": pa.string(), "label": pa.int64(), "class_name": pa.string(), "split": pa.string()}
NAMES_HINT = "expected one class name per line, in label order"


class Columns(BaseModel):
    """A list of N images by column, without empty cells."""

    model_config = ConfigDict(strict=True)

    path: list[str]
    label: list[Label] | None = None
    class_name: list[str] | None = None
    split: list[str] | None = None


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
    with refusing(path, expected=EXPECTED):
        columns = Columns.model_validate(_load(path))
    names = None if class_names is None else read_lines(Path(class_names), hint=NAMES_HINT)
    if columns.class_name is None and (columns.label is None or names is None):
        raise DataError(
            f"{path} has no class names; add a column class_name, or a column label and set class_names to a file with "
            "one class name per line"
        )
    paths = [relative(image, origin=str(path)) for image in columns.path]
    others = (columns.label or repeat(None), columns.class_name or repeat(None), columns.split or repeat("test"))
    return listed(list(zip(paths, *others, strict=False)), names=names, root=root, wanted=wanted, origin=str(path))


def _load(path: Path) -> dict[str, list[Any]]:
    """The known columns of a table; where a row of a JSON list lacks a key, None."""
    suffix = path.suffix.lower()
    if suffix == ".json":
        rows = read_json(path, list[dict[str, Any]], expected=f"a list of rows with {EXPECTED}")
        keys = {key for row in rows for key in row}
        return {name: [row.get(name) for row in rows] for name in CSV_TYPES if name in keys}
    try:
        if suffix == ".parquet":
            table = pq.read_table(path, partitioning=None)
        elif suffix in (".csv", ".tsv"):
            parse = pa_csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",")
            convert = pa_csv.ConvertOptions(column_types=CSV_TYPES)
            table = pa_csv.read_csv(path, parse_options=parse, convert_options=convert)
        else:
            raise DataError(f"{path}: expected a .csv, .tsv, .parquet or .json file")
        table.validate(full=True)
        names = [name for name in CSV_TYPES if name in table.column_names]
        return {name: table[name].to_pylist() for name in names}
    except (pa.ArrowException, KeyError, OSError, UnicodeError) as error:
        why = reason_of(error)
        raise DataError(f"{path} cannot be read as a list of images ({why}); expected {EXPECTED}") from None
