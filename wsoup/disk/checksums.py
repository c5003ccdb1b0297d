"""Checksums of content: of named arrays, and of a table's columns.

They are of values, not of a file's bytes, so that they can be stored in the same file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

VALUES_AT_ONCE = 100_000
"""Values of a column that are digested together."""


def of_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """SHA-256 of arrays with their names, types and shapes; the order of the mapping is irrelevant."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.digest()


def of_columns(table: pa.Table) -> dict[str, str]:
    """SHA-256 of each column, in hex: of its type, and of its values as JSON."""
    checksums = {}
    for name in table.column_names:
        column = table[name]
        digest = hashlib.sha256(f"{column.type} {len(column)}\n".encode())
        for start in range(0, len(column), VALUES_AT_ONCE):
            # Arrow may hold equal values in different buffers, so these are not what is digested.
            values = column.slice(start, VALUES_AT_ONCE).to_pylist()
            digest.update(json.dumps(values).encode())
        checksums[name] = digest.hexdigest()
    return checksums
