"""Files at a URL (``s3://bucket/a.jpg``, ``gs://...``), read and written through fsspec.

Each scheme needs its own package (s3fs for s3, gcsfs for gs), which also finds the credentials.
"""

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from wsoup.base.errors import DataError, MissingError, one_line

VERSION_KEYS = ("ETag", "etag", "md5Hash", "generation", "LastModified", "mtime", "created")
"""What storages say of a file that changes with it."""
CHUNK = 1 << 24
"""Bytes that are asked for at a time."""
MOST_DECODED = 4
"""How often a listed path is decoded in search of a step that leads up."""
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://")
_HTTP = ("http://", "https://")
Answer = TypeVar("Answer")


def is_remote(path: str | Path) -> bool:
    """Whether a path is a URL.

    >>> is_remote("s3://bucket/photos"), is_remote("/data/photos")
    (True, False)
    """
    return _SCHEME.match(str(path)) is not None


def names_url(path: str) -> bool:
    """Whether a path from a file looks like a URL; of a list none is ever read.

    >>> names_url("HTTP://host/a.png"), names_url("zip://a.png::s3://b/c.zip"), names_url("a:b/c.png")
    (True, True, False)
    """
    # Asked of a million paths, of which hardly any holds a colon.
    return ":" in path and "://" in path.replace("\\", "/")


def joined(root: str | Path, path: str) -> str:
    """A path under a root, which may be a URL.

    Raises:
        DataError: the root is a URL, and a server might take the path for another place than one below it.

    >>> joined("s3://bucket/photos/", "cat/1.jpg"), joined("photos/", "cat/1.jpg")
    ('s3://bucket/photos/cat/1.jpg', 'photos/cat/1.jpg')
    """
    if not is_remote(root):
        return str(Path(root) / path)
    problem = _leaves(path, is_http=str(root).startswith(_HTTP))
    if problem:
        raise DataError(f"path {path[:200]!r} {problem}; list paths below {root} only")
    return f"{str(root).rstrip('/')}/{path}"


def _leaves(path: str, *, is_http: bool) -> str:
    """Why a path may lead elsewhere than below a URL; "" if it does not."""
    # fsspec takes ``a::b`` for a file inside another.
    if names_url(path) or "::" in path:
        return "is a URL of its own"
    if is_http and ("?" in path or "#" in path):
        return "asks the server a question ('?' or '#')"
    plain = path
    # Each server on the way may decode it once more.
    for _ in range(MOST_DECODED):
        plain = unquote(plain)
    if unquote(plain) != plain:
        return f"is encoded (%25) more than {MOST_DECODED} times"
    steps = plain.replace("\\", "/").split("/")
    # ``..;`` is a step up to servers that know parameters of steps.
    if any(step.split(";")[0] in (".", "..") for step in steps) or plain.startswith("/"):
        return "leaves the root"
    return ""


def read(path: str, *, largest: int) -> bytes:
    """The bytes at a URL.

    Raises:
        MissingError: there is no such file.
        DataError: it cannot be read, no installed package reads its scheme, or it goes on after `largest` bytes,
            whatever size it announces.
    """
    # By ranges, fsspec would trust a server to send no more than was asked for.
    options = {"block_size": 0} if path.startswith(_HTTP) else {}

    def bounded(filesystem: Any, inner: str) -> bytes | None:
        content = bytearray()
        with filesystem.open(inner, "rb", **options) as file:
            while chunk := file.read(min(CHUNK, largest + 1)):
                content += chunk
                if len(content) > largest:
                    return None
        return bytes(content)

    content = _ask(path, bounded)
    if content is None:
        raise DataError(f"{path} has more than {largest:,} bytes; is it the right file?")
    return content


def write(path: str, payload: bytes) -> None:
    """Write bytes to a URL; raises as `read`."""
    _ask(path, lambda filesystem, inner: filesystem.pipe_file(inner, payload), verb="written")


def stamp(path: str) -> tuple[int, int]:
    """Size in bytes, and a number that changes with the file (from its ETag, version or time); raises as `read`.

    A storage that gives none of these yields a new number each time, so that the file is always read again.
    """
    info = _ask(path, lambda filesystem, inner: filesystem.info(inner))
    versions = [str(info[key]) for key in VERSION_KEYS if info.get(key)]
    text = "|".join(versions) or os.urandom(16).hex()
    digest = hashlib.sha256(text.encode()).digest()
    number = int.from_bytes(digest[:7], "big")  # fits 63 bits, a column of the digest cache
    return int(info.get("size") or 0), number


def _ask(path: str, ask: Callable[[Any, str], Answer], *, verb: str = "read") -> Answer:
    """What a storage answers about the file at a URL; raises as `read`."""
    import fsspec

    try:
        return ask(*fsspec.core.url_to_fs(path))
    except FileNotFoundError:
        raise MissingError(f"{path} cannot be read (no such file)") from None
    except ImportError as error:
        raise DataError(f"{path}: {one_line(error, limit=200)}") from None
    # Each storage raises errors of its own client.
    except Exception as error:
        reason = one_line(error, limit=200) or type(error).__name__
        raise DataError(f"{path} cannot be {verb} ({reason}); check the URL and the credentials") from None
