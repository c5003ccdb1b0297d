"""Read users' images: files, members of tar files, rows of Arrow files, or at a URL."""

from __future__ import annotations

import os
import re
import tarfile
from functools import lru_cache
from typing import TYPE_CHECKING

from wsoup.base import remote
from wsoup.base.errors import DataError
from wsoup.disk.files import LARGEST_FILE, read_file, read_part, reason_of, regular_file, shown

if TYPE_CHECKING:
    import pyarrow as pa

_INTO_CONTAINER = re.compile(r"\.(?:tar|arrow)/")


def container_of(path: str) -> str | None:
    """The tar or Arrow file that `path` leads into, or None.

    ``test/0.tar/s0000012.jpg`` is a member of a tar file, ``test/0.arrow/image/12`` a row of a column. A folder with
    such a name is a folder like any other.
    """
    for match in _INTO_CONTAINER.finditer(path):
        head = path[: match.end() - 1]
        if os.path.isfile(head):
            return head
    return None


def file_size(path: str) -> int:
    """Bytes of a file, or of the container that an image is in; a path may be a URL. Raises as `regular_file`."""
    return remote.size(path) if remote.is_remote(path) else regular_file(container_of(path) or path).st_size


def read_bytes(path: str) -> bytes:
    """The bytes of a file, a tar member or an image in an Arrow file (see `container_of`); a path may be a URL.

    Raises:
        MissingError: there is no such file.
        DataError: not a regular file, unreadable or larger than `LARGEST_FILE`; the container is broken or has no such
            member.
    """
    archive = None if remote.is_remote(path) else container_of(path)
    if archive is None:
        return read_file(path)
    member = path[len(archive) + 1 :]
    changed = regular_file(archive).st_mtime_ns
    if archive.endswith(".arrow"):
        return _cell(archive, member, changed)
    places = tar_index(archive, changed)
    if member not in places:
        raise DataError(f"{shown(archive)} has no member {member!r}; run `dvc repro prepare` to list it again")
    offset, size = places[member]
    if size > LARGEST_FILE:
        raise DataError(f"{shown(path)}: {size:,} bytes are too many for an image ({LARGEST_FILE:,}); remove it")
    return read_part(archive, offset=offset, size=size)


def _cell(archive: str, member: str, changed: int) -> bytes:
    """The bytes of one image of an Arrow file; `member` is ``<column>/<row>``."""
    column, _, row = member.rpartition("/")
    table = arrow_table(archive, changed)
    if table.column_names.count(column) == 1 and row.isdecimal() and int(row) < table.num_rows:
        value = table[column][int(row)].as_py()
        if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
            return value["bytes"]
    raise DataError(f"{shown(archive)} has no image {member!r}; run `dvc repro prepare` to list it again")


@lru_cache(maxsize=64)
def arrow_table(file: str, mtime_ns: int) -> pa.Table:
    """A memory-mapped Arrow stream file as a table; `mtime_ns` makes a changed file a new cache entry.

    Raises:
        DataError: truncated, damaged, or no Arrow stream.
    """
    import pyarrow as pa

    try:
        table = pa.ipc.open_stream(pa.memory_map(file)).read_all()
        table.validate(full=True)  # offsets beyond the file would read other memory
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        raise DataError(
            f"{shown(file)} is not a complete Arrow stream file ({reason_of(error)}); save or download it again"
        ) from None
    return table


@lru_cache(maxsize=4096)
def tar_index(archive: str, mtime_ns: int) -> dict[str, tuple[int, int]]:
    """(offset, size) of each member of an uncompressed tar file; `mtime_ns` makes a changed file a new cache entry.

    Raises:
        DataError: truncated, damaged, compressed, or no tar file.
    """
    places: dict[str, tuple[int, int]] = {}
    end, size = 0, os.stat(archive).st_size
    try:
        with tarfile.open(archive, mode="r:") as tar:
            for member in tar:
                if member.size < 0 or member.offset_data < end:
                    raise tarfile.ReadError(f"member {member.name!r} begins before the one above it ends")
                end = member.offset_data + member.size
                if end > size:
                    raise tarfile.ReadError(f"member {member.name!r} ends beyond its {size:,} bytes")
                if member.isreg() and not member.issparse():
                    places[member.name] = (member.offset_data, member.size)
    except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError) as error:
        raise DataError(
            f"{shown(archive)} is not a complete, uncompressed tar file ({reason_of(error)}); copy or download it "
            "again (and unpack .gz)"
        ) from None
    return places
