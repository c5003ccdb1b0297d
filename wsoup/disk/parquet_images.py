"""Pictures inside a Parquet file, as Hugging Face's hub serves them: a column of structs with the field ``bytes``.

A row group is read as a whole, so the last ones are kept: images are mostly read in the order of rows.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from wsoup.base.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

MOST_KEPT = 1 << 28
"""Bytes of row groups that this process keeps."""
LARGEST_GROUP = 1 << 30
"""Bytes of a column of pictures in a row group; the hub's have a hundredth."""

_lock = Lock()
_kept: OrderedDict[tuple[str, int, str, int], pa.Array] = OrderedDict()


def has_bytes(kind: pa.DataType) -> bool:
    """Whether a column holds pictures themselves."""
    import pyarrow as pa

    if not pa.types.is_struct(kind):
        return False
    fields = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)}
    held = fields.get("bytes")
    return held is not None and (pa.types.is_binary(held) or pa.types.is_large_binary(held))


def picture(file: str, *, column: str, row: int) -> bytes | None:
    """The bytes of one picture; None if the file has no such column or row, or the row no bytes.

    Raises:
        DataError: the file is damaged, or a row group too large.
    """
    import pyarrow as pa

    modified = os.stat(file).st_mtime_ns
    try:
        # Threads wait for each other, or each would read the group that another is reading.
        with _lock:
            opened = _opened(file, modified)
            group = 0
            while group < opened.num_row_groups and row >= opened.metadata.row_group(group).num_rows:
                row -= opened.metadata.row_group(group).num_rows
                group += 1
            schema = opened.schema_arrow
            if group == opened.num_row_groups or column not in schema.names or not has_bytes(schema.field(column).type):
                return None
            cell = _group(opened, (file, modified, column, group))[row]
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{file} cannot be read as Parquet ({error}); download it again") from None
    return cell.as_py()


@lru_cache(maxsize=16)
def _opened(file: str, modified: int) -> pq.ParquetFile:
    """`modified` makes a changed file a new cache entry."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(file, memory_map=True)


def _group(opened: pq.ParquetFile, key: tuple[str, int, str, int]) -> pa.Array:
    """The pictures of one row group: (n,) binary."""
    import pyarrow.compute as pc

    if key in _kept:
        _kept.move_to_end(key)
        return _kept[key]
    file, _, column, group = key
    about = opened.metadata.row_group(group)
    size = 0
    for position in range(about.num_columns):
        of_column = about.column(position)
        if of_column.path_in_schema == f"{column}.bytes":
            size += of_column.total_uncompressed_size
    if size > LARGEST_GROUP:
        raise DataError(
            f"{file} has {size:,} bytes of pictures in one row group, more than {LARGEST_GROUP:,}; save it with "
            "smaller row groups"
        )
    table = opened.read_row_group(group, columns=[f"{column}.bytes"])
    pictures = pc.struct_field(table[column].combine_chunks(), "bytes")
    pictures.validate(full=True)  # offsets beyond the page would read other memory
    while _kept and pictures.nbytes + sum(other.nbytes for other in _kept.values()) > MOST_KEPT:
        _kept.popitem(last=False)
    _kept[key] = pictures
    return pictures
