"""Tar archives as shards of a dataset: what lies where, without unpacking, and one file's bytes by their place.

No name in an archive is ever a path here: links, devices and folders are passed over, and a file is read by its offset.
Headers are read one after the other and forgotten, so that a million of them need no memory.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from typing import NamedTuple

from wsoup.base.errors import DataError, one_line

BLOCK = tarfile.BLOCKSIZE
LONGEST_HEADER = 1 << 20
"""Bytes of an extended header, which holds a name."""
PLACE = re.compile(r"^[^/]*@(\d{1,18})\+(\d{1,18})$")
"""How a path ends that leads into an archive: name, offset and size."""
AGAIN = "download it again"
OTHERS = {
    b"\x1f\x8b": "is compressed; shards are read by offset: rename it to .tar.gz, and uncompress it (gunzip)",
    b"BZh": "is compressed; shards are read by offset: rename it to .tar.bz2, and uncompress it (bunzip2)",
    b"\xfd7zXZ": "is compressed; shards are read by offset: rename it to .tar.xz, and uncompress it (unxz)",
    b"\x28\xb5\x2f\xfd": "is compressed; shards are read by offset: rename it to .tar.zst, and uncompress it (unzstd)",
    b"PK\x03\x04": "is a zip file; unpack it (unzip), and name the folder",
    b"version https://git-lfs": "is a pointer of Git LFS; fetch the file itself (git lfs pull)",
    b"<": f"is a web page, as a failed download leaves it; {AGAIN}",
}
"""What is called .tar by mistake, by its first bytes, and what to do."""


class Entry(NamedTuple):
    """A regular file in an archive: its name as the archive has it, where its bytes begin, and their number."""

    name: str
    offset: int
    size: int


def place_of(entry: Entry) -> str:
    """What stands after the archive in the path of an entry.

    >>> place_of(Entry("../a/0001.jpg", 1536, 20))
    '0001.jpg@1536+20'
    """
    name = re.sub(r"[^\w.-]", "_", entry.name.rpartition("/")[2])
    return f"{name}@{entry.offset}+{entry.size}"


def entries(path: str) -> Iterator[Entry]:
    """The regular files of an archive, in its order.

    Raises:
        DataError: compressed, damaged, or cut off; names the last file before that place.
    """
    last = ""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            for entry in _entries(file.fileno(), size=size):
                if entry.offset + entry.size > size:
                    raise ValueError(f"it is cut off within {entry.name!r}")
                yield entry
                last = repr(entry.name)
    except (tarfile.HeaderError, ValueError, UnicodeError, OSError) as error:
        other = "" if last else _other_kind(path)
        if other:
            raise DataError(f"{path} is no whole tar archive after its beginning: it {other}") from None
        last = last or "its beginning"
        raise DataError(one_line(f"{path} is no whole tar archive after {last} ({error}); {AGAIN}")) from None


def _other_kind(path: str) -> str:
    """What a file is that is called .tar by mistake, and what to do; "" if its first bytes do not say it."""
    with open(path, "rb") as file:
        first = file.read(BLOCK).lstrip()
    return next((what for sign, what in OTHERS.items() if first.startswith(sign)), "")


def _entries(file: int, *, size: int) -> Iterator[Entry]:
    """All regular files of an open archive; raises as tarfile and int do."""
    offset = 0
    extended: dict[str, str] = {}
    while True:
        header = os.pread(file, BLOCK, offset)
        if len(header) < BLOCK:
            raise ValueError("it has no end")
        if not header.strip(b"\0"):
            return
        name, length, kind = _parsed(header)
        length = int(extended.get("size", length))
        # Whatever the header of a folder or of a link says, no bytes follow it.
        if length < 0 or kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE):
            length = 0
        offset += BLOCK
        if kind in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
            if length > LONGEST_HEADER or offset + length > size:
                raise ValueError(f"a header of {length:,} bytes")
            if kind == tarfile.XHDTYPE:
                extended |= _records(os.pread(file, length, offset))
            elif kind == tarfile.GNUTYPE_LONGNAME:
                extended["path"] = os.pread(file, length, offset).rstrip(b"\0").decode("utf-8", "surrogateescape")
        else:
            if kind in (tarfile.REGTYPE, tarfile.AREGTYPE) and "GNU.sparse.major" not in extended:
                yield Entry(extended.get("path", name), offset, length)
            extended = {}
        offset += -(-length // BLOCK) * BLOCK


def _parsed(header: bytes) -> tuple[str, int, bytes]:
    """Name, size and kind of an entry; `tarfile.TarInfo.frombuf`, which reads all fields, takes ten times as long."""
    said = _number(header[148:156])
    # Of the bytes with the sum itself as eight spaces.
    if said != sum(header) - sum(header[148:156]) + 8 * ord(" "):
        raise ValueError("bad checksum")
    name = header[:100].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0]
    if prefix and header[257:263] == b"ustar\0":
        name = prefix + b"/" + name
    return name.decode("utf-8", "surrogateescape"), _number(header[124:136]), header[156:157]


def _number(field: bytes) -> int:
    """A number in octal digits or, after a set bit, in binary."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    return int(field.partition(b"\0")[0].strip() or b"0", 8)


def _records(data: bytes) -> dict[str, str]:
    """The records of an extended header: ``length key=value``."""
    found = {}
    position = 0
    while position < len(data):
        length_of, _, _ = data[position : position + 20].partition(b" ")
        length = int(length_of)
        if length < 4 or data[position + length - 1 : position + length] != b"\n":
            raise ValueError("an extended header that is damaged")
        record = data[position + len(length_of) + 1 : position + length - 1]
        key, _, value = record.partition(b"=")
        found[key.decode("utf-8", "surrogateescape")] = value.decode("utf-8", "surrogateescape")
        position += length
    return found


def held(path: str, *, place: str, largest: int) -> bytes | None:
    """The bytes of a file in an archive, by its `place_of`; None if there is no such place.

    Raises:
        DataError: larger than `largest` bytes.
        OSError: it cannot be read.
    """
    found = PLACE.match(place)
    if found is None:
        return None
    offset, size = map(int, found.groups())
    if size > largest:
        raise DataError(f"{path} holds a file of {size:,} bytes, more than {largest:,}; is it an image?")
    with open(path, "rb") as file:
        if offset + size > os.fstat(file.fileno()).st_size:
            return None
        return os.pread(file.fileno(), size, offset)
