"""Files at a URL (``s3://bucket/a.jpg``, ``gs://...``), read and written through fsspec.

Each scheme needs its own package (s3fs for s3, gcsfs for gs), which also finds the credentials.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from wsoup.base.errors import DataError, MissingError, one_line

VERSION_KEYS = ("ETag", "etag", "md5Hash", "generation", "LastModified", "mtime", "created")
"""What storages say of a file that changes with it."""
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://")


def is_remote(path: str | Path) -> bool:
    """Whether a path is a URL.

    >>> is_remote("s3://bucket/photos"), is_remote("/data/photos")
    (True, False)
    """
    return _SCHEME.match(str(path)) is not None


def joined(root: str | Path, path: str) -> str:
    """A path under a root, which may be a URL.

    >>> joined("s3://bucket/photos/", "cat/1.jpg"), joined("photos/", "cat/1.jpg")
    ('s3://bucket/photos/cat/1.jpg', 'photos/cat/1.jpg')
    """
    if is_remote(root):
        return f"{str(root).rstrip('/')}/{path}"
    return str(Path(root) / path)


def read(path: str) -> bytes:
    """The bytes at a URL.

    Raises:
        MissingError: there is no such file.
        DataError: it cannot be read, or no installed package reads its scheme.
    """
    return _call(path, "cat_file")


def write(path: str, payload: bytes) -> None:
    """Write bytes to a URL; raises as `read`."""
    _call(path, "pipe_file", payload)


def size(path: str) -> int:
    """Size in bytes of the file at a URL; raises as `read`."""
    return int(_call(path, "info").get("size") or 0)


def stamp(path: str) -> tuple[int, int]:
    """Size in bytes, and a number that changes with the file (from its ETag, version or time); raises as `read`.

    A storage that gives none of these yields a new number each time, so that the file is always read again.
    """
    info = _call(path, "info")
    versions = [str(info[key]) for key in VERSION_KEYS if info.get(key)]
    text = "|".join(versions) or os.urandom(16).hex()
    digest = hashlib.sha256(text.encode()).digest()
    number = int.from_bytes(digest[:7], "big")  # fits 63 bits, a column of the digest cache
    return int(info.get("size") or 0), number


def _call(path: str, method: str, *payload: bytes) -> Any:
    import fsspec

    try:
        filesystem, inner = fsspec.core.url_to_fs(path)
        return getattr(filesystem, method)(inner, *payload)
    except FileNotFoundError:
        raise MissingError(f"{path} cannot be read (no such file)") from None
    except ImportError as error:
        raise DataError(f"{path}: {one_line(error, limit=200)}") from None
    # Each storage raises errors of its own client.
    except Exception as error:
        reason = one_line(error, limit=200) or type(error).__name__
        verb = "written" if payload else "read"
        raise DataError(f"{path} cannot be {verb} ({reason}); check the URL and the credentials") from None
