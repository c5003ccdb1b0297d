"""The formats of what is on disk: JSON, Parquet, named arrays; all written atomically.

The bytes depend on the content and on the libraries that compress it: Parquet has fixed row groups, zstd and no time
stamps, JSON has sorted keys.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic_core import from_json
from safetensors import SafetensorError
from safetensors.numpy import load, save

from wsoup.base import remote
from wsoup.base.errors import MismatchError, MissingError, WsoupError, one_line
from wsoup.disk import checksums
from wsoup.disk.atomic import replacing, write_bytes
from wsoup.disk.files import LARGEST_FILE, read_file

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_GROUP = 100_000
CHECKSUMS = "wsoup checksums"
"""Key of the metadata of a table."""
CHECKSUM = "checksum"
"""Key of an object of JSON."""


def require(path: str | Path, *, made_by: str) -> Path:
    """`path` if it exists; else MissingError with the stage that makes it."""
    if not Path(path).exists():
        raise MissingError(f"{path} does not exist; it is made by stage {made_by!r}: run `dvc repro {made_by}`")
    return Path(path)


# ---------------------------------------------------------------------------------------------------------- JSON


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON with sorted keys, indented by two spaces; a path may be a URL."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if remote.is_remote(path):
        remote.write(str(path), text.encode())
    else:
        write_bytes(path, text.encode())


AGAIN = "make it again with `dvc repro`"


def read_json(path: str | Path, *, largest: int = LARGEST_FILE, step: str = AGAIN) -> Any:
    """Read a JSON file; a path may be a URL.

    Args:
        path: the file.
        largest: bytes.
        step: what to do about a file that is not JSON.

    Raises:
        MissingError: no such file.
        DataError: unreadable, larger than `largest` bytes, or not a regular file.
        MismatchError: not JSON, or NaN.
    """
    try:
        return from_json(read_file(str(path), largest=largest), allow_inf_nan=False)
    except WsoupError:
        raise
    except ValueError as error:
        raise MismatchError(f"{path} is not JSON ({one_line(error, limit=200)}); {step}") from None


def write_checked_object(path: str | Path, value: Mapping[str, Any]) -> None:
    """`write_json` of an object and a checksum of its values under `CHECKSUM`."""
    write_json(path, {**value, CHECKSUM: _checksum(value)})


def read_checked_object(path: str | Path) -> dict[str, Any]:
    """`read_object` of what `write_checked_object` wrote, without the checksum; MismatchError if it is damaged."""
    value = read_object(path)
    stored = value.pop(CHECKSUM, None)
    if stored is None:
        why = "has no checksum: an earlier version of wsoup wrote it, or it is damaged"
    elif stored != _checksum(value):
        why = "is damaged: its checksum is not that of its values"
    else:
        return value
    raise MismatchError(f"{path} {why}; make it again with `dvc repro`")


def _checksum(value: Mapping[str, Any]) -> str:
    """The fingerprint of an object as JSON returns it: with texts as keys, which sort in another way than numbers."""
    return fingerprint(json.loads(json.dumps(dict(value))))


def read_object(path: str | Path) -> dict[str, Any]:
    """`read_json` of an object. MismatchError if it is not one, and later for each key that is missing at any depth."""
    value = _naming(read_json(path), path)
    if not isinstance(value, dict):
        raise MismatchError(f"{path} does not hold a JSON object; make it again with `dvc repro`")
    return value


def _naming(value: Any, path: str | Path) -> Any:
    """A JSON value whose objects name the file where a key is missing."""
    if isinstance(value, dict):
        return _Attributes({key: _naming(item, path) for key, item in value.items()}, path)
    if isinstance(value, list):
        return [_naming(item, path) for item in value]
    return value


# ------------------------------------------------------------------------------------------------------- Parquet


def write_table(
    path: str | Path,
    table: pa.Table,
    *,
    attributes: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write a Parquet table, with checksums of each column and of the attributes, which every reader here compares.

    Args:
        path: the file.
        table: its columns.
        attributes: JSON values, stored in the schema's metadata under ``wsoup``.
    """
    import pyarrow.parquet as pq

    digests = {"attributes": _checksum(attributes), "columns": checksums.of_columns(table)}
    metadata = {"wsoup": dict(attributes), CHECKSUMS: digests}
    table = table.replace_schema_metadata({key: json.dumps(value, sort_keys=True) for key, value in metadata.items()})
    with replacing(path) as temporary:
        pq.write_table(table, temporary, row_group_size=ROWS_PER_GROUP, compression="zstd")


def read_table(path: str | Path, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a Parquet table, or only some of its columns.

    Raises:
        MissingError: no such file.
        MismatchError: damaged, without checksums, a column is missing, or another program wrote it.
    """
    with _reading_parquet(path) as pq:
        # pre_buffer takes twice the memory
        table = pq.read_table(path, columns=columns and list(columns), partitioning=None, pre_buffer=False)
        stored = _stored_checksums(table.schema.metadata)["columns"]
        if columns is None and {*stored} != {*table.column_names}:
            raise ValueError("columns are missing or renamed")
        for name, checksum in checksums.of_columns(table).items():
            if stored[name] != checksum:
                raise ValueError(f"column {name} is damaged: its checksum differs")
        return table


def table_attributes(path: str | Path) -> dict[str, Any]:
    """The attributes that `write_table` stored; raises as `read_table`."""
    with _reading_parquet(path) as pq:
        metadata = pq.read_schema(path).metadata
        stored = _stored_checksums(metadata)["attributes"]
        attributes = json.loads(metadata[b"wsoup"])
        if stored != _checksum(attributes):
            raise ValueError("its attributes are damaged: their checksum differs")
        return _Attributes(attributes, path)


def _stored_checksums(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """What `write_table` stored beside the attributes; ValueError for a table that it did not write."""
    if metadata is None or b"wsoup" not in metadata:
        raise ValueError("another program wrote it")
    # A table without them is refused, or one flipped bit in this key would be a way around them.
    if CHECKSUMS.encode() not in metadata:
        raise ValueError("it has no checksums: an earlier version of wsoup wrote it, or it is damaged")
    return dict(json.loads(metadata[CHECKSUMS.encode()]))


class _Attributes(dict[str, object]):
    """A file's attributes; a missing key is a MismatchError that names the file."""

    def __init__(self, attributes: Mapping[str, object], path: str | Path) -> None:
        super().__init__(attributes)
        self._path = path

    def __missing__(self, key: str) -> Any:
        raise MismatchError(f"{self._path} does not say its {key}: it is another file; remove it and run `dvc repro`")


@contextmanager
def _reading_parquet(path: str | Path) -> Iterator[Any]:
    """Yield pyarrow.parquet, and turn what it raises into one line."""
    if not Path(path).is_file():
        raise MissingError(f"{path} does not exist, or is not a file; make it with `dvc repro`")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        yield pq
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        why = one_line(error, limit=300)
        raise MismatchError(f"{path} cannot be read as Parquet ({why}); remove it and run `dvc repro`") from None


# ------------------------------------------------------------------------------------------------ arrays, hashes


def check_encoder(
    actual: Mapping[str, object],
    *,
    expected: Mapping[str, object],
    where: str | Path,
    step: str = "run `dvc repro` to make it again",
) -> None:
    """Raise MismatchError, naming both, unless the two encoder ids are equal; `step` is what to do about it."""
    if dict(actual) != dict(expected):
        pairs = []
        for key in sorted({*actual, *expected}):
            if actual.get(key) != expected.get(key):
                pairs.append(f"{key}: {actual.get(key)!r}, expected {expected.get(key)!r}")
        raise MismatchError(f"{where} was made with another encoder ({', '.join(pairs)}); {step}")


def pack_arrays(arrays: Mapping[str, np.ndarray], *, metadata: Mapping[str, str] | None = None) -> bytes:
    """Named arrays as the bytes of a safetensors file; of more than one key in `metadata` the order is not fixed."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(contiguous, metadata=dict(metadata) if metadata else None)


def unpack_arrays(payload: bytes, *, origin: str | Path) -> dict[str, np.ndarray]:
    """Named arrays from the bytes of `pack_arrays`; MismatchError, naming `origin`, for anything else."""
    try:
        return load(payload)
    except (SafetensorError, ValueError, KeyError) as error:
        raise MismatchError(f"{origin} holds no arrays ({error})") from None


def text_as_array(text: str) -> np.ndarray:
    """A text as the uint8 array of its UTF-8 bytes: a safetensors file holds arrays and nothing else."""
    return np.frombuffer(text.encode(), dtype=np.uint8)


def text_of_array(array: np.ndarray) -> str:
    """The text of `text_as_array`; UnicodeDecodeError, a ValueError, for any other array."""
    return array.tobytes().decode()


def sha256_file(path: str | Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(value: object) -> str:
    """Twenty hex digits that identify a JSON value, for resume folders and cache keys."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]
