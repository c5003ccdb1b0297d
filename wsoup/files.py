"""The bytes of one image, wherever it lies: a file, or a member of a tar file."""

from __future__ import annotations

import os
import tarfile
from functools import lru_cache

from wsoup.errors import DataError

CONTAINERS = (".tar",)
"""A path such as ``shards/0.tar/000012.jpg`` names a member of a container file."""


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
    """The bytes of a file, or of a tar member (``shards/0.tar/000012.jpg``)."""
    archive = container_of(path)
    if archive is None or os.path.isdir(archive):
        with open(path, "rb") as file:
            return file.read()
    member = path[len(archive) + 1 :]
    places = tar_index(archive, os.stat(archive).st_mtime_ns)
    if member not in places:
        raise DataError(f"{archive} has no member {member!r}; run `dvc repro prepare` to list it again")
    offset, size = places[member]
    with open(archive, "rb") as file:
        file.seek(offset)
        return file.read(size)


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
