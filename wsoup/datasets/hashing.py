"""What identifies an unchanged image file, and what it holds: stamps and SHA-256, read in threads."""

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from wsoup.base import remote
from wsoup.base.errors import MissingError
from wsoup.datasets.listing import some
from wsoup.disk.files import container_of, read_bytes, regular_file

FILES_AT_ONCE = 4096
"""Files that a thread looks at before it takes the next ones; 16 of remote storage."""
REMOTE_REQUESTS = 32
"""Requests that remote storage is sent at a time."""
STAMP = ("stat_size", "mtime_ns", "ctime_ns", "inode")
"""What identifies an unchanged file; for a URL it is what the storage reports (`remote.stamp`), and ones."""
Result = TypeVar("Result")


def stamps_of(root: str, paths: Sequence[str], *, origin: str) -> np.ndarray:
    """(N, 4) int64: `STAMP` of each file, its size first, or of the container of an image; raises as
    `digests.of_images`."""
    stamps = _for_each_file(_stamp, root, paths)
    missing = [path for path, stamp in zip(paths, stamps, strict=True) if stamp is None]
    if missing:
        raise MissingError(
            f"{len(missing):,} of {len(paths):,} images listed in {origin} do not exist under {root}: {some(missing)}; "
            "unpack the dataset again, or correct its root or split file"
        )
    return np.array(stamps, dtype=np.int64).reshape(-1, len(STAMP))


def hashed(root: str, paths: Sequence[str]) -> list[tuple[int, str]]:
    """Size in bytes and SHA-256 in hex of each file, all of which are read.

    Raises:
        MissingError, DataError: one does not exist, is not a regular file, or cannot be read.
    """
    return _for_each_file(_digest, root, paths)


def _stamp(file: str) -> tuple[int, ...] | None:
    """`STAMP` of a file; None if there is none."""
    try:
        if remote.is_remote(file):
            # The ones stand for a file's time of change and inode; 0 would mean that it cannot be recognised.
            return *remote.stamp(file), 1, 1
        status = regular_file(container_of(file) or file)
    except MissingError:
        return None
    # An inode is unsigned on some file systems, and times after the year 2262 have more than 63 bits.
    limit = 2**63
    return status.st_size, status.st_mtime_ns % limit, status.st_ctime_ns % limit, status.st_ino % limit


def _digest(file: str) -> tuple[int, str]:
    """Size and digest; hashing and reading release the interpreter's lock."""
    data = read_bytes(file)
    return len(data), hashlib.sha256(data).hexdigest()


def _for_each_file(function: Callable[[str], Result], root: str, paths: Sequence[str]) -> list[Result]:
    """Apply a function to each file in threads; many at once where storage is remote and slow to answer."""
    step = FILES_AT_ONCE
    threads = min(8, os.cpu_count() or 1)
    if remote.is_remote(root):
        step = 16
        threads = REMOTE_REQUESTS

    def part(first: int) -> list[Result]:
        return [function(remote.joined(root, path)) for path in paths[first : first + step]]

    results: list[Result] = []
    with ThreadPoolExecutor(threads) as pool:
        for some_results in pool.map(part, range(0, len(paths), step)):
            results.extend(some_results)
    return results
