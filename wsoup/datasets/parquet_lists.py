"""Lists in Parquet files, also as Hugging Face's hub serves a dataset: with the pictures themselves in a column.

A few kilobytes of Parquet can stand for 10^9 rows or for texts of gigabytes, so sizes are read before anything else.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wsoup.base.errors import DataError
from wsoup.datasets.cells import CLASS_NAMES, EXPECTED, Cells, folded, no_path, roles_of
from wsoup.datasets.listing import some
from wsoup.disk.files import LARGEST_FILE, reason_of
from wsoup.disk.parquet_images import has_bytes

ROWS_PER_BYTE = 32
"""Rows for each byte of a Parquet list. Paths differ, so a list has about one row for two bytes."""
LONGEST_TEXT = 4096
"""Bytes of a cell in a Parquet list; Linux takes no longer path."""
NAMED = {"path", "label", "class", "split", *CLASS_NAMES}
"""Columns that must hold texts or numbers, by their folded names; others that do not are not read."""


def read_parquet(path: Path) -> Cells:
    """Read a list; raises as `read_cells`."""
    try:
        about = pq.read_metadata(path)
        schema = about.schema.to_arrow_schema()
        columns = {name: _texts(column, of=f"{path}: column {name}") for name, column in _table(path, about).items()}
    except (pa.ArrowException, KeyError, OSError, UnicodeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        why = reason_of(error)
        raise DataError(f"{path} cannot be read as a list of images ({why}); expected {EXPECTED}") from None
    pictures = [entry.name for entry in schema if has_bytes(entry.type)]
    classes = _classes_of_the_hub(schema.metadata or {})
    roles = roles_of(columns, origin=str(path))
    if roles.label is None and len(classes) == 1:
        roles = roles._replace(label=next(iter(classes)))
    names: Sequence[str] = classes.get(roles.label or "", ())
    # A column called path is what a list's own writer means; beside pictures, file_name and the like are remarks.
    if roles.path == "path" or not pictures:
        if roles.path is None:
            raise DataError(no_path(schema.names, origin=str(path)))
        return Cells(str(path), columns, columns[roles.path], roles, names)
    if len(pictures) > 1:
        raise DataError(f"{path}: columns {some(pictures)} all hold pictures; keep one of them")
    width = len(str(about.num_rows))
    # Numbers of one width, so that rows sorted as texts are sorted by number, too.
    paths = [f"{path}/{pictures[0]}/{row:0{width}}" for row in range(about.num_rows)]
    return Cells(str(path), columns, paths, roles._replace(path=None), names)


def _table(path: Path, about: pq.FileMetaData) -> dict[str, pa.ChunkedArray]:
    """The columns of texts and numbers, and those that should be."""
    size_of_file = path.stat().st_size
    if about.num_rows > ROWS_PER_BYTE * size_of_file:
        raise DataError(
            f"{path} has {about.num_rows:,} rows in {size_of_file:,} bytes, more than {ROWS_PER_BYTE} for each; list "
            "every image once"
        )
    schema = about.schema.to_arrow_schema()
    names = [entry.name for entry in schema if _is_plain(entry.type) or folded(entry.name) in NAMED]
    if len({*names}) < len(names):
        raise DataError(f"{path} has two columns of one name among {some(names, limit=8)}; rename one")
    size = _unpacked(about, columns=names)
    if size > LARGEST_FILE:
        raise DataError(f"{path} unpacks to {size:,} bytes, more than {LARGEST_FILE:,}; is it the right file?")
    # A text that many rows share is held once, until its length is known.
    table = pq.read_table(path, columns=names, partitioning=None, read_dictionary=names)
    # A damaged file may be read without an error: this looks at every value.
    table.validate(full=True)
    return {name: _written_out(table[name], of=f"{path}: column {name}") for name in names}


def _unpacked(about: pq.FileMetaData, *, columns: Sequence[str]) -> int:
    """Bytes of some columns in memory."""
    size = 0
    for number in range(about.num_row_groups):
        group = about.row_group(number)
        for position in range(group.num_columns):
            column = group.column(position)
            if column.path_in_schema.split(".")[0] in columns:
                size += column.total_uncompressed_size
    return size


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return is_text or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _written_out(column: pa.ChunkedArray, *, of: str) -> pa.ChunkedArray:
    """A dictionary's column with a text for each row; any other column as it is."""
    if not pa.types.is_dictionary(column.type):
        return column
    chunks = []
    for chunk in column.chunks:
        values = chunk.dictionary
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            longest = pc.max(pc.binary_length(values)).as_py() or 0
            if longest > LONGEST_TEXT:
                raise DataError(
                    f"{of} holds a text of {longest:,} bytes, expected {LONGEST_TEXT:,} at most; shorten it"
                )
        chunks.append(chunk.dictionary_decode())
    return pa.chunked_array(chunks, type=column.type.value_type)


def _texts(column: pa.ChunkedArray, *, of: str) -> list[str]:
    """Cells as a CSV file would have them: a missing one is empty, a whole number has no point."""
    if not _is_plain(column.type):
        raise DataError(f"{of} holds {column.type}, expected texts or numbers; convert it")
    texts = []
    for value in column.to_pylist():
        if value is None or value != value:  # NaN, as pandas has gaps
            text = ""
        elif isinstance(value, float) and value.is_integer():
            text = str(int(value))
        else:
            text = str(value).strip()
        texts.append(text)
    return texts


def _classes_of_the_hub(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Class names in label order of each ClassLabel column that the hub's metadata describe."""
    try:
        features: Any = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        described = features.items()
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}
    classes = {}
    for column, feature in described:
        names = feature.get("names") if isinstance(feature, dict) else None
        is_label = isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        if is_label and isinstance(names, list) and names and all(isinstance(name, str) for name in names):
            classes[column] = names
    return classes
