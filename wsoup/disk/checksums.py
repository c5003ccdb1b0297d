"""Checksums of content: of named arrays, and of a table's columns.

They are of values, not of a file's bytes, so that they can be stored in the same file.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def of_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """SHA-256 of arrays with their names, types and shapes; the order of the mapping is irrelevant."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.digest()


def of_columns(table: pa.Table) -> dict[str, str]:
    """SHA-256 of each column, in hex: of what kind its values are, which are null, and the values.

    Equal values have equal checksums, however Arrow divides a column into chunks or encodes it.

    Raises:
        TypeError: a column does not consist of numbers, texts, bytes or lists of them.
    """
    return {name: _of_column(table[name]) for name in table.column_names}


def _of_column(column: pa.ChunkedArray) -> str:
    kind = _kind(column.type)
    # One digest for each part, such as all lengths of texts, because the parts of a chunk end where the chunk ends.
    parts: dict[str, Any] = defaultdict(hashlib.sha256)
    for chunk in column.chunks:
        _add(chunk, parts, path="")
    whole = hashlib.sha256(f"{kind} {len(column)}\n".encode())
    for name, digest in sorted(parts.items()):
        whole.update(f"{name} {digest.hexdigest()}\n".encode())
    return whole.hexdigest()


def _kind(type_: pa.DataType) -> str:
    """What values a type holds, whatever their encoding; Parquet renames the items of a list, so they have no name."""
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_dictionary(type_):
        return _kind(type_.value_type)
    if kinds.is_list(type_) or kinds.is_large_list(type_):
        return f"list of {_kind(type_.value_type)}"
    if kinds.is_string(type_) or kinds.is_large_string(type_):
        return "text"
    if kinds.is_binary(type_) or kinds.is_large_binary(type_):
        return "bytes"
    if kinds.is_null(type_) or kinds.is_boolean(type_) or kinds.is_integer(type_) or kinds.is_floating(type_):
        return str(type_)
    raise TypeError(f"no checksum is defined of values of type {type_}")


def _add(array: pa.Array, parts: Mapping[str, Any], *, path: str) -> None:
    """Add the values of one array to the digests of `parts`; `path` leads to the array in nested lists."""
    import pyarrow as pa

    kinds = pa.types
    # An array without values must leave no trace, because chunks may be empty.
    if len(array) == 0:
        return
    if kinds.is_dictionary(array.type):
        array = array.dictionary_decode()
    parts[f"{path}valid"].update(array.is_valid().to_numpy(zero_copy_only=False))
    if kinds.is_null(array.type):
        return
    if kinds.is_list(array.type) or kinds.is_large_list(array.type):
        parts[f"{path}lengths"].update(_filled(array.value_lengths()).astype(np.int64))
        # Without what Arrow may keep behind nulls and outside of a slice.
        _add(array.flatten(), parts, path=f"{path}items/")
    elif _kind(array.type) in ("text", "bytes"):
        lengths, data = _bytes_of(array.cast(pa.large_binary()))
        parts[f"{path}lengths"].update(lengths)
        parts[f"{path}bytes"].update(data)
    else:
        if kinds.is_boolean(array.type):
            array = array.cast(pa.uint8())
        parts[f"{path}values"].update(_filled(array))


def _filled(array: pa.Array) -> np.ndarray:
    """The numbers of an array with 0 in place of nulls, behind which Arrow may keep anything."""
    if array.null_count > 0:
        array = array.fill_null(0)
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False))


def _bytes_of(array: pa.LargeBinaryArray) -> tuple[np.ndarray, memoryview]:
    """The lengths of the values of an array, and their bytes one after another; those of a null are none."""
    if array.null_count > 0:
        array = array.fill_null(b"")
    _, offset_buffer, data = array.buffers()
    # A slice shares its buffers with the whole.
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    # Arrow may leave the buffer out if all values are empty.
    return np.diff(offsets), memoryview(data or b"")[offsets[0] : offsets[-1]]
