"""Which images are right, one bit an image: what evaluation stores and the report reads. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

FILE = "right.parquet"
Right = dict[str, np.ndarray]
"""Dataset -> (K, N) bool: the images that a row gets right with each seed."""


def pack_right(right: np.ndarray) -> bytes:
    """Which images are right, (N,) bool, as bits to store; see `unpack_right`."""
    return np.packbits(right).tobytes()


def unpack_right(packed: bytes, *, n_images: int) -> np.ndarray:
    """What `pack_right` packed: (N,) bool."""
    return np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=n_images).astype(bool)


def right_by_row(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Right]:
    """(method, mode) -> which images are right, seeds in order; from the lines of `FILE`."""
    by_row: dict[tuple[str, str], dict[str, list[np.ndarray]]] = {}
    for line in sorted(lines, key=lambda line: line["seed"]):
        by_dataset = by_row.setdefault((line["method"], line["mode"]), {})
        by_dataset.setdefault(line["dataset"], []).append(unpack_right(line["right"], n_images=line["n_images"]))
    return {row: {name: np.stack(seeds) for name, seeds in datasets.items()} for row, datasets in by_row.items()}
