"""Files that lie elsewhere, by their URL (``s3://bucket/a.jpg``, ``gs://...``), read through fsspec.

What reads a scheme is a package of its own: s3fs for s3, gcsfs for gs. Credentials are found where that package looks.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from wsoup.core.errors import DataError, MissingError

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://")


def is_remote(path: str | Path) -> bool:
    """Whether a path is a URL.

    >>> is_remote("s3://bucket/photos"), is_remote("/data/photos")
    (True, False)
    """
    return _SCHEME.match(str(path)) is not None


def joined(root: str | Path, path: str) -> str:
    """A path below a root, which may be a URL.

    >>> joined("s3://bucket/photos/", "cat/1.jpg"), joined("photos/", "cat/1.jpg")
    ('s3://bucket/photos/cat/1.jpg', 'photos/cat/1.jpg')
    """
    return f"{str(root).rstrip('/')}/{path}" if is_remote(root) else str(Path(root) / path)


def resolved(root: str | Path) -> str:
    """A root by the one name that it has: links resolved; a URL without its last slash."""
    return str(root).rstrip("/") if is_remote(root) else os.path.realpath(root)


def read(path: str) -> bytes:
    """The bytes behind a URL.

    Raises:
        MissingError: there is no such file.
        DataError: it cannot be read, or nothing here reads its scheme.
    """
    return _asked(path, "cat_file")


def write(path: str, payload: bytes) -> None:
    """Put bytes behind a URL; raises as `read`."""
    _asked(path, "pipe_file", payload)


def size(path: str) -> int:
    """Bytes of the file behind a URL; raises as `read`."""
    return int(_asked(path, "info").get("size") or 0)


def stamp(path: str) -> tuple[int, int]:
    """Size in bytes, and a number that is another one once the file is: of its ETag, version or time; raises as `read`.

    A file of which nothing of the kind is known has no stamp that stays, and is read each time.
    """
    about = _asked(path, "info")
    said = [str(about[key]) for key in ("ETag", "etag", "md5Hash", "generation", "LastModified", "mtime", "created")
            if about.get(key)]  # fmt: skip
    text = "|".join(said) if said else os.urandom(16).hex()
    return int(about.get("size") or 0), int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def _asked(path: str, method: str, *payload: bytes) -> Any:
    import fsspec

    try:
        filesystem, inner = fsspec.core.url_to_fs(path)
        return getattr(filesystem, method)(inner, *payload)
    except FileNotFoundError:
        raise MissingError(f"{path} cannot be read (no such file)") from None
    except ImportError as error:
        raise DataError(f"{path}: {' '.join(str(error).split())[:200]}") from None
    except Exception as error:  # every kind of storage has errors of its own
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        done = "written" if payload else "read"
        raise DataError(f"{path} cannot be {done} ({reason}); check the URL and the credentials") from None
