"""Read users' files: images in files, tar files, Arrow files or at a URL, and texts; and show their names safely.

Only regular files are opened: a FIFO would block for ever, and ``/dev/zero`` has no end.
"""

from __future__ import annotations

import os
import re
import stat
import tarfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from wsoup.base import remote
from wsoup.base.errors import DataError, MissingError, ParamsError, WsoupError, one_line

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST_FILE = 1 << 30
"""Bytes. No image is larger; a larger file (a sparse one, say) would fill the memory."""

FORMULAS = (*"=+-@\t\r\n", *"＝＋－＠")
"""Characters that start a formula in a spreadsheet, also in full width; after an apostrophe they are text."""

_INTO_CONTAINER = re.compile(r"\.(?:tar|arrow)/")
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


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


def shown(path: str) -> str:
    r"""A path or text in a one-line message.

    >>> print(shown("a/1.jpg"), shown("two\nlines.jpg"))
    a/1.jpg two\nlines.jpg
    """
    return path if path.isprintable() else repr(path)[1:-1]


def defused(text: str) -> str:
    """A cell of a CSV file that no spreadsheet takes for a formula.

    >>> print(defused("=1+2"), defused("has claws"))
    '=1+2 has claws
    """
    return f"'{text}" if text.startswith(FORMULAS) else text


def defused_path(path: str) -> str:
    """The same for a path, which stays valid.

    >>> print(defused_path("=1.jpg"), defused_path("a/=1.jpg"))
    ./=1.jpg a/=1.jpg
    """
    return f"./{path}" if path.startswith(FORMULAS) else path


def check_ending(file: Path, *endings: str, option: str) -> None:
    """Raise ParamsError if an option names a file of another kind, which would be overwritten."""
    if file.suffix.lower() not in endings:
        raise ParamsError(f"{option} {file} must end in {' or '.join(endings)}: a file of that name is overwritten")


def regular_file(path: str) -> os.stat_result:
    """The status of a file, links followed.

    Raises:
        MissingError: there is no such file.
        DataError: it is a folder, a FIFO, a socket, a device or a broken link, or it cannot be accessed.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        if os.path.islink(path):
            raise DataError(f"{shown(path)} is a broken symbolic link; repair or remove it") from None
        raise MissingError(f"{shown(path)} cannot be read (No such file or directory)") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{shown(path)} cannot be read ({reason_of(error)}); repair or remove it") from None
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file")
        raise DataError(f"{shown(path)} is {kind}, expected a file; rename or remove it")
    return status


def file_size(path: str) -> int:
    """Bytes of a file, or of the container that an image is in; a path may be a URL. Raises as `regular_file`."""
    return remote.size(path) if remote.is_remote(path) else regular_file(container_of(path) or path).st_size


def reason_of(error: BaseException) -> str:
    """An error's message in one line, or its type if it has none."""
    return one_line(getattr(error, "strerror", None) or error, limit=300) or type(error).__name__


def read_text(path: str | Path, *, kind: type[WsoupError] = DataError, largest: int = LARGEST_FILE) -> str:
    r"""The text of a UTF-8 file, with or without a byte order mark; all line ends become ``\n``.

    Raises:
        MissingError: there is no such file.
        DataError: not a regular file.
        kind: unreadable, larger than `largest` bytes, or not UTF-8 (with the byte that is not).
    """
    try:
        if (size := regular_file(str(path)).st_size) > largest:
            raise kind(f"{path} has {size:,} bytes, more than {largest:,}; is it the right file?")
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise kind(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        if isinstance(error, WsoupError):
            raise
        raise kind(f"{path} cannot be read ({reason_of(error)}); repair it") from None


def read_bytes(path: str) -> bytes:
    """The bytes of a file, a tar member or an image in an Arrow file (see `container_of`); a path may be a URL.

    Raises:
        MissingError: there is no such file.
        DataError: not a regular file, unreadable or larger than `LARGEST_FILE`; the container is broken or has no such
            member.
    """
    if remote.is_remote(path):
        _check_size(path, remote.size(path))
        return remote.read(path)
    archive = container_of(path)
    if archive is None:
        return _part(path, offset=0, size=regular_file(path).st_size)
    member = path[len(archive) + 1 :]
    changed = regular_file(archive).st_mtime_ns
    if archive.endswith(".arrow"):
        return _cell(archive, member, changed)
    places = tar_index(archive, changed)
    if member not in places:
        raise DataError(f"{shown(archive)} has no member {member!r}; run `dvc repro prepare` to list it again")
    offset, size = places[member]
    return _part(archive, offset=offset, size=size)


def _check_size(path: str, size: int) -> None:
    if size > LARGEST_FILE:
        raise DataError(f"{shown(path)}: {size:,} bytes are too many for an image ({LARGEST_FILE:,}); remove it")


def _part(path: str, *, offset: int, size: int) -> bytes:
    _check_size(path, size)
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(size)
    except OSError as error:
        raise DataError(f"{shown(path)} cannot be read ({reason_of(error)}); repair or remove it") from None


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
    end = 0
    try:
        with tarfile.open(archive, mode="r:") as tar:
            for member in tar:
                if member.size < 0 or member.offset_data < end:
                    raise tarfile.ReadError(f"member {member.name!r} begins before the one above it ends")
                end = member.offset_data + member.size
                if member.isreg() and not member.issparse():
                    places[member.name] = (member.offset_data, member.size)
    except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError) as error:
        raise DataError(
            f"{shown(archive)} is not a complete, uncompressed tar file ({reason_of(error)}); copy or download it "
            "again (and unpack .gz)"
        ) from None
    size = os.stat(archive).st_size
    for name, (offset, length) in places.items():
        if offset + length > size:
            raise DataError(
                f"{shown(archive)} is truncated: {name!r} ends beyond its {size:,} bytes; download it again"
            )
    return places
