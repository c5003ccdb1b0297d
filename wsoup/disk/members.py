"""Read users' images: files, rows of Arrow files, or at a URL."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from wsoup.base import remote
from wsoup.base.errors import DataError
from wsoup.disk.files import read_file, reason_of, regular_file, shown

if TYPE_CHECKING:
    import pyarrow as pa


def container_of(path: str) -> str | None:
    """The Arrow file that `path` leads into, ``test/0.arrow/image/12``, or None.

    A folder with such a name is a folder like any other.
    """
    head, dot, _ = path.rpartition(".arrow/")
    return f"{head}.arrow" if dot and os.path.isfile(f"{head}.arrow") else None


def file_size(path: str) -> int:
    """Bytes of a file, or of the container that an image is in; a path may be a URL. Raises as `regular_file`."""
    return remote.size(path) if remote.is_remote(path) else regular_file(container_of(path) or path).st_size


def read_bytes(path: str) -> bytes:
    """The bytes of a file, or of an image in an Arrow file (see `container_of`); a path may be a URL.

    Raises:
        MissingError: there is no such file.
        DataError: not a regular file, unreadable or larger than `LARGEST_FILE`; the container is broken or has no such
            image.
    """
    container = None if remote.is_remote(path) else container_of(path)
    if container is None:
        return read_file(path)
    cell = path[len(container) + 1 :]
    column, _, row = cell.rpartition("/")
    table = arrow_table(container)
    if table.column_names.count(column) == 1 and row.isdecimal() and int(row) < table.num_rows:
        value = table[column][int(row)].as_py()
        if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
            return value["bytes"]
    raise DataError(f"{shown(container)} has no image {cell!r}; run `dvc repro prepare` to list it again")


def arrow_table(file: str) -> pa.Table:
    """A memory-mapped Arrow stream file as a table.

    Raises:
        MissingError: there is no such file.
        DataError: truncated, damaged, or no Arrow stream.
    """
    return _mapped(file, regular_file(file).st_mtime_ns)


@lru_cache(maxsize=64)
def _mapped(file: str, mtime_ns: int) -> pa.Table:
    """`mtime_ns` makes a changed file a new cache entry."""
    import pyarrow as pa

    try:
        table = pa.ipc.open_stream(pa.memory_map(file)).read_all()
        table.validate(full=True)  # offsets beyond the file would read other memory
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        raise DataError(
            f"{shown(file)} is not a complete Arrow stream file ({reason_of(error)}); save or download it again"
        ) from None
    return table
