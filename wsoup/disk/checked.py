"""Bytes after their SHA-256: the format of caches that must detect damage, for example by a power cut."""

import hashlib
import sys
from pathlib import Path

from wsoup.base.errors import DataError, MismatchError
from wsoup.disk.atomic import replacing
from wsoup.disk.files import read_file


def write_checked(path: str | Path, payload: bytes) -> None:
    """Write bytes after their SHA-256, for caches that must detect damage, for example by a power cut."""
    with replacing(path, lasting=False) as temporary, temporary.open("wb") as file:
        file.write(hashlib.sha256(payload).hexdigest().encode() + b"\n")
        file.write(payload)


def read_checked(path: str | Path) -> bytes:
    """Read what `write_checked` wrote.

    Raises:
        MissingError: no such file.
        MismatchError: unreadable, damaged, or not of this kind.
    """
    try:
        data = read_file(str(path), largest=sys.maxsize)
    except DataError as error:
        raise MismatchError(str(error)) from None
    digest = data[:64]
    payload = data[65:]  # after a line feed
    if hashlib.sha256(payload).hexdigest().encode() != digest:
        raise MismatchError(f"{path} is damaged: its checksum is not that of its bytes")
    return payload
