"""Atomic writes: a temporary name in the same folder, synced to disk, and renamed.

A reader never sees half a file, not even after a power cut.
"""

import errno
import hashlib
import os
import platform
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from wsoup.base.errors import StorageError, WsoupError, storage_error

FOREIGN_AGE = 86_400.0
"""Seconds after which a temporary file of another machine counts as abandoned: a day."""
TEMPORARY = re.compile(r"\.(?:(?P<place>[0-9a-f]{8})-)?(?P<process>\d+)-[0-9a-f]+\.tmp$")
"""Name of a temporary file, with the process that writes it; those of wsoup 0.3 have no place."""


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
            _remove(temporary)
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
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot
            raise
    finally:
        os.close(descriptor)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{place()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")


@cache
def place() -> str:
    """Where process ids are unique: a digest of this machine, its boot and this container."""
    identity = [platform.node()]
    for read in (lambda: Path("/proc/sys/kernel/random/boot_id").read_text(), lambda: os.readlink("/proc/self/ns/pid")):
        with suppress(OSError):
            identity.append(read())
    return hashlib.sha256("\0".join(identity).encode()).hexdigest()[:8]


def _put(temporary: Path, path: Path) -> None:
    """Rename; an existing folder is moved aside first, and back if that fails."""
    if not path.is_dir():
        os.replace(temporary, path)
        return
    if not temporary.is_dir():
        raise StorageError(f"{path} is a folder, expected a file; give the name of a file")
    aside = _beside(path)
    os.replace(path, aside)
    try:
        os.replace(temporary, path)
    except OSError:
        os.replace(aside, path)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _remove(path: Path) -> None:
    """Remove a file or folder; files that a thread of zarr still writes are left to `remove_abandoned`."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink(missing_ok=True)


def abandoned(*folders: str | Path) -> Iterator[Path]:
    """Temporary files and folders below `folders` that killed processes left behind.

    Whether a process of another machine or container is alive cannot be known here: its files count after a day.
    """
    for folder in folders:
        for path in Path(folder).rglob(".*.tmp"):
            owner = TEMPORARY.search(path.name)
            if owner and owner["place"] == place():
                if not _alive(int(owner["process"])):
                    yield path
            elif owner and time.time() - _last_written(path) > FOREIGN_AGE:
                yield path


def _last_written(path: Path) -> float:
    """Time of the last write to a file, or to anything in a folder; now if it has disappeared."""
    with suppress(OSError):
        return max(inner.lstat().st_mtime for inner in (path, *path.rglob("*")))
    return time.time()


def remove_abandoned(*folders: str | Path) -> None:
    """Remove what `abandoned` lists."""
    for path in list(abandoned(*folders)):
        _remove(path)


def _alive(process: int) -> bool:
    """Whether a process with this id exists, as far as can be known."""
    if os.name == "nt":
        return True  # signal 0 would kill it there
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's process; not a process id
        return True
    return True
