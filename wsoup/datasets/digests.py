"""Sizes and content digests of image files, cached by path, size, times and inode.

The cache is one Parquet file with a checksum per dataset root, so that an unchanged dataset costs one `stat` per image.
Size and modification time alone prove nothing: two images of a camera may share both and swap places.
"""

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wsoup.base.errors import MismatchError, MissingError
from wsoup.datasets.hashing import STAMP, hashed, stamps_of
from wsoup.disk import cache_folder, store
from wsoup.disk.checked import read_checked, write_checked

_STAMPS = [(name, pa.int64()) for name in STAMP]
SCHEMA = pa.schema([("path", pa.string()), *_STAMPS, ("size", pa.int64()), ("digest", pa.string())])
"""Columns of the cache."""


def of_images(root: str, paths: Sequence[str], *, origin: str) -> tuple[list[int], list[str]]:
    """Sizes in bytes and SHA-256 in hex of the N images of one dataset, reading only new or changed ones.

    Args:
        root: the dataset's root.
        paths: N paths relative to it.
        origin: what lists them, for the message.

    Raises:
        MissingError: listed images do not exist; names the first ones and their number.
        DataError: one is not a regular file, or cannot be read.
    """
    stamps = stamps_of(root, paths, origin=origin)  # (N, 4)
    name = store.fingerprint([os.path.realpath(root), *SCHEMA.names])
    cache = cache_folder.cache_dir() / "digests" / f"{name}.checked"
    known = _read(cache)
    kept = _unchanged(known, paths=paths, stamps=stamps)
    changed = [path for path, file in zip(paths, kept, strict=True) if file is None]
    digested = dict(zip(changed, hashed(root, changed), strict=True))
    sizes = []
    hexes = []
    for path, file in zip(paths, kept, strict=True):
        size, digest = digested[path] if file is None else file
        sizes.append(size)
        hexes.append(digest)
    if changed:
        stamp_columns = dict(zip(STAMP, stamps.T, strict=True))
        table = pa.table({"path": list(paths), **stamp_columns, "size": sizes, "digest": hexes}, schema=SCHEMA)
        # Images that this listing lacks stay known: another seed or split of the same root may list them.
        listed_here = pc.is_in(known["path"], value_set=table["path"].combine_chunks())
        others = known.filter(pc.invert(listed_here))
        payload = io.BytesIO()
        pq.write_table(pa.concat_tables([table, others]), payload, compression="zstd")
        write_checked(cache, payload.getvalue())
    return sizes, hexes


def _read(cache: Path) -> pa.Table:
    """Digests of one root from earlier runs; empty where there are none, or the file is damaged."""
    try:
        return pq.read_table(io.BytesIO(read_checked(cache)))
    except MissingError:
        return SCHEMA.empty_table()
    except MismatchError as error:
        print(f"{error}; it is dropped, and the images are read again", file=sys.stderr)
        return SCHEMA.empty_table()


def _unchanged(known: pa.Table, *, paths: Sequence[str], stamps: np.ndarray) -> list[tuple[int, str] | None]:
    """(size, digest) of each path whose stamp is unchanged, else None; always None without an inode."""
    known_paths = known["path"].combine_chunks()
    rows = pc.index_in(pa.array(paths, type=pa.string()), value_set=known_paths)
    kept = known.take(rows)  # nulls where a path is unknown
    same = stamps[:, -1] != 0
    for name, column in zip(STAMP, stamps.T, strict=True):
        equal = pc.equal(kept[name], pa.array(column))
        same &= pc.fill_null(equal, False).to_numpy()
    files = zip(kept["size"].to_pylist(), kept["digest"].to_pylist(), strict=True)
    return [file if unchanged else None for file, unchanged in zip(files, same.tolist(), strict=True)]
