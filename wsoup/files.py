"""The bytes of one image, wherever it lies: a file, a member of a tar file, a row of an Arrow file."""

from __future__ import annotations

import os
import tarfile
from functools import lru_cache
from typing import TYPE_CHECKING

from wsoup.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

CONTAINERS = (".tar", ".arrow")
"""``test/0.tar/s0000012.jpg`` names a member of a tar file, ``test/0.arrow/image/12`` a row of a column."""


def container_of(path: str) -> str | None:
    """The container's path when `path` names a member of one, else None.

    >>> container_of("test/0.tar/s0000001.jpg"), container_of("test/cat/1.jpg")
    ('test/0.tar', None)
    """
    for suffix in CONTAINERS:
        head, separator, _ = path.partition(suffix + "/")
        if separator:
            return head + suffix
    return None


def read_bytes(path: str) -> bytes:
    """The bytes of a file, of a tar member, or of an image in an Arrow file; see CONTAINERS.

    Raises:
        FileNotFoundError, OSError: as `open`.
        DataError: the container is broken, or has no such member.
    """
    archive = container_of(path)
    if archive is None or os.path.isdir(archive):
        with open(path, "rb") as file:
            return file.read()
    member = path[len(archive) + 1 :]
    changed = os.stat(archive).st_mtime_ns
    if archive.endswith(".arrow"):
        column, _, row = member.partition("/")
        return arrow_table(archive, changed)[column][int(row)].as_py()["bytes"]
    places = tar_index(archive, changed)
    if member not in places:
        raise DataError(f"{archive} has no member {member!r}; run `dvc repro prepare` to list it again")
    offset, size = places[member]
    with open(archive, "rb") as file:
        file.seek(offset)
        return file.read(size)


@lru_cache(maxsize=64)
def arrow_table(file: str, mtime_ns: int) -> pa.Table:
    """A table over a memory-mapped Arrow stream file; `mtime_ns` makes a changed file a new entry.

    Raises:
        DataError: truncated, or no Arrow stream.
    """
    import pyarrow as pa

    try:
        return pa.ipc.open_stream(pa.memory_map(file)).read_all()
    except pa.ArrowInvalid as error:
        raise DataError(f"{file} is no whole Arrow stream file ({error}); save or download it again") from None


@lru_cache(maxsize=4096)
def tar_index(archive: str, mtime_ns: int) -> dict[str, tuple[int, int]]:
    """Offset and size of each member of an uncompressed tar file; `mtime_ns` makes a changed file a new entry.

    Raises:
        DataError: truncated, compressed, or no tar file.
    """
    try:
        with tarfile.open(archive, mode="r:") as tar:
            places = {member.name: (member.offset_data, member.size) for member in tar if member.isfile()}
    except (tarfile.TarError, EOFError) as error:
        raise DataError(
            f"{archive} is no whole, uncompressed tar file ({error}); copy or download it again (and unpack .gz)"
        ) from None
    size = os.stat(archive).st_size
    for name, (offset, length) in places.items():
        if offset + length > size:
            raise DataError(f"{archive} is truncated: {name!r} ends beyond its {size:,} bytes; download it again")
    return places
