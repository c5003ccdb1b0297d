"""Sizes and content digests of image files, cached by path, size, times and inode.

One checked Parquet file per dataset root under the cache folder, so that looking over an unchanged dataset again costs
one `stat` per image. Size and modification time alone are no proof: two images of a camera may have both in common, and
change places.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wsoup.core.disk import remote, store
from wsoup.core.disk.files import container_of, read_bytes, reason_of, regular_file
from wsoup.core.errors import DataError, MismatchError, MissingError
from wsoup.datasets.listing import some

CHUNK = 4096
REMOTE_QUESTIONS = 32
"""To a storage at a time."""
FOLDER = "digests"
"""Where they lie in the cache folder."""
ROOT = b"wsoup.root"
"""Where a file of digests says whose it is."""
STAMP = ("stat_size", "mtime_ns", "ctime_ns", "inode")
"""By which a file is known again; of a URL what its storage says of it (`remote.stamp`), and ones."""


@dataclass(frozen=True)
class Digests:
    """Of N images: sizes (N,) int64 in bytes, and SHA-256 in hex."""

    sizes: np.ndarray
    hexes: list[str]


def of_images(root: str, paths: Sequence[str], *, origin: str) -> Digests:
    """Digest the images of one dataset, reading only those that are new or changed.

    Args:
        root: the dataset's root.
        paths: N paths relative to it.
        origin: what lists them, for the message.

    Raises:
        MissingError: listed images that are not there; names the first ones and their number.
        DataError: one is not a regular file, or cannot be read.
    """
    stamps = _stamps(root, paths, origin=origin)  # (N, 4)
    known = _Cache(root)
    entries = known.look_up(paths, stamps)
    missing = [i for i, entry in enumerate(entries) if entry < 0]
    sizes = np.empty(len(paths), dtype=np.int64)
    hexes = [""] * len(paths)
    for i, entry in enumerate(entries):
        if entry >= 0:
            sizes[i], hexes[i] = known.sizes[entry], known.hexes[entry]
    for i, (size, digest) in zip(missing, _of_each(_digest, root, [paths[i] for i in missing]), strict=True):
        sizes[i], hexes[i] = size, digest
    if missing:
        known.save(paths, stamps, sizes, hexes)
    return Digests(sizes, hexes)


def whose(path: str | Path) -> tuple[str, int]:
    """Of a file of digests: the root of the images, links resolved ("" where it does not say), and their number.

    Raises:
        MismatchError: damaged.
    """
    try:
        about = pq.read_metadata(io.BytesIO(store.read_checked(path)))
    except pa.ArrowException as error:
        raise MismatchError(f"{path} holds no digests ({error})") from None
    return os.fsdecode((about.metadata or {}).get(ROOT, b"")), about.num_rows


def _stamps(root: str, paths: Sequence[str], *, origin: str) -> np.ndarray:
    """(N, 4) int64: `STAMP` of each file, or of the container that an image lies in."""
    stamps = _of_each(_stamp, root, paths)
    odd = [stamp for stamp in stamps if isinstance(stamp, DataError)]
    if odd:
        more = f" ({len(odd) - 1:,} more are not files either)" if len(odd) > 1 else ""
        raise DataError(f"{origin}: {odd[0]}{more}")
    lost = [path for path, stamp in zip(paths, stamps, strict=True) if isinstance(stamp, MissingError)]
    if lost:
        raise MissingError(
            f"{len(lost):,} of {len(paths):,} images listed in {origin} do not exist under {root}: {some(lost)}; "
            "unpack the dataset again, or correct its root or split file"
        )
    return np.array(stamps, dtype=np.int64).reshape(-1, len(STAMP))


def _stamp(file: str) -> tuple[int, ...] | MissingError | DataError:
    try:
        if remote.is_remote(file):
            return *remote.stamp(file), 1, 1
        status = regular_file(container_of(file) or file)
    except (MissingError, DataError) as error:
        return error
    inode = status.st_ino % 2**63  # unsigned on some file systems
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, inode


def _digest(file: str) -> tuple[int, str]:
    """Size and digest; hashing and reading release the interpreter's lock."""
    data = read_bytes(file)
    return len(data), hashlib.sha256(data).hexdigest()


def _of_each(ask: Callable[[str], Any], root: str, paths: Sequence[str]) -> list[Any]:
    """What threads find of each file; questions to a storage take long each, and many go at once."""
    far = remote.is_remote(root)
    step = 16 if far else CHUNK

    def ask_all(first: int) -> list[Any]:
        return [ask(remote.joined(root, path)) for path in paths[first : first + step]]

    with ThreadPoolExecutor(REMOTE_QUESTIONS if far else min(8, os.cpu_count() or 1)) as pool:
        return [answer for part in pool.map(ask_all, range(0, len(paths), step)) for answer in part]


class _Cache:
    """What was digested before under one root. A damaged file is named, dropped and made again."""

    def __init__(self, root: str) -> None:
        self.root = remote.resolved(root)
        self.path = store.cache_dir() / FOLDER / f"{store.fingerprint(self.root)}.checked"
        self.index: dict[str, int] = {}
        try:
            self.table = pq.read_table(io.BytesIO(store.read_checked(self.path)))
        except MissingError:
            return
        except MismatchError as error:
            print(f"{error}; it is dropped, and the images are read again", file=sys.stderr)
            return
        if not {*STAMP} <= {*self.table.column_names}:
            return  # of an earlier wsoup
        self.index = {path: i for i, path in enumerate(self.table["path"].to_pylist())}
        self.stamps = np.stack([self.table[name].to_numpy() for name in STAMP], axis=1)
        self.sizes = self.table["size"].to_numpy()
        self.hexes = self.table["digest"].to_pylist()

    def look_up(self, paths: Sequence[str], stamps: np.ndarray) -> np.ndarray:
        """(N,) entry of each path whose stamp is unchanged, else -1; without an inode it is none."""
        entries = np.fromiter((self.index.get(path, -1) for path in paths), dtype=np.int64, count=len(paths))
        if self.index:
            entries[(self.stamps[entries] != stamps).any(axis=1) | (stamps[:, -1] == 0)] = -1
        return entries

    def save(self, paths: Sequence[str], stamps: np.ndarray, sizes: np.ndarray, hexes: Sequence[str]) -> None:
        """Keep these, and what else was known, under this root."""
        new = set(paths)
        kept = np.array([i for path, i in self.index.items() if path not in new], dtype=np.int64)
        columns = {
            "path": list(paths),
            **dict(zip(STAMP, stamps.T, strict=True)),
            "size": sizes,
            "digest": list(hexes),
        }
        table = pa.table(columns)
        if len(kept):
            table = pa.concat_tables([table, self.table.take(pa.array(kept)).replace_schema_metadata(None)])
        table = table.replace_schema_metadata({ROOT: os.fsencode(self.root)})
        payload = io.BytesIO()
        pq.write_table(table, payload, compression="zstd")
        try:
            store.write_checked(self.path, payload.getvalue())
        except OSError as error:
            print(
                f"{self.path} cannot be written ({reason_of(error)}): images are read again next time", file=sys.stderr
            )
