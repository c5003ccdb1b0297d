"""Atomic writes: a temporary name in the same folder, synced to disk, and renamed.

A reader never sees half a file, not even after a power cut.
"""

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from wsoup.base.errors import StorageError, WsoupError, storage_error

HEX = 12 * "[0-9a-f]"


@contextmanager
def replacing(path: str | Path, *, lasting: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it replaces `path`, on failure it is removed.

    A folder replaces a folder, a file a file; nothing else is ever removed.

    Args:
        path: what to write.
        lasting: sync it to disk, so that it survives a power cut; about 15 ms on an SSD.

    Raises:
        StorageError: the disk is full or read-only, or `path` is a link to a folder, or a folder instead of a file.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_no_link(path)
        temporary = _beside(path)
        try:
            yield temporary
            if lasting:
                _sync(temporary)
            _put(temporary, path)
            if lasting:
                _sync_one(path.parent)
        finally:
            remove(temporary)
    except WsoupError:
        raise
    except OSError as error:
        raise storage_error(error, path=path) from None


def write_bytes(path: str | Path, payload: bytes) -> None:
    """Write a file atomically."""
    with replacing(path) as temporary:
        temporary.write_bytes(payload)


def check_no_link(folder: Path) -> None:
    """Raise StorageError for a symbolic link to a folder, which DVC would refuse only after the work is done."""
    if folder.is_symlink() and folder.is_dir():
        raise StorageError(
            f"{folder} is a symbolic link to a folder, which DVC does not accept in a run; replace the link by the "
            "folder itself (to keep data on another disk: `dvc cache dir` and `dvc config cache.type symlink`)"
        )


def _sync(path: Path) -> None:
    """Sync a file, or all of a folder, to disk: otherwise a power cut after the rename may leave an empty file."""
    if path.is_dir():
        with ThreadPoolExecutor(8) as pool:  # 4,000 files take 0.6 s, and 4 to 12 s one after the other
            list(pool.map(_sync_one, path.rglob("*")))
    _sync_one(path)


def _sync_one(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return  # a folder on Windows; for anything else the rename fails, too
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # some file systems cannot, nor can Windows
            raise
    finally:
        os.close(descriptor)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")


def _put(temporary: Path, path: Path) -> None:
    """Rename; an existing folder is moved aside first, and back if that fails."""
    if not path.is_dir():
        os.replace(temporary, path)
        return
    if not temporary.is_dir():
        raise StorageError(f"{path} is a folder, expected a file; give the name of a file")
    aside = _beside(path)
    # No system call replaces a folder that is not empty.
    os.replace(path, aside)
    try:
        os.replace(temporary, path)
    except OSError:
        os.replace(aside, path)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def remove(path: Path) -> None:
    """Remove a file or folder; files that a thread of zarr still writes are left to `remove_half_written`."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink(missing_ok=True)


def remove_half_written(*outs: str | Path) -> None:
    """Remove what killed processes left of files and folders, beside and in them; nobody else may be writing these."""
    for path in half_written(*outs):
        remove(path)


def half_written(*outs: str | Path) -> list[Path]:
    """What killed processes left of files and folders, or what others are writing, beside and in them."""
    left: list[Path] = []
    for out in outs:
        path = Path(out)
        left += path.parent.glob(f".{path.name}.{HEX}.tmp")
        left += path.rglob(f".*.{HEX}.tmp")
    return left
