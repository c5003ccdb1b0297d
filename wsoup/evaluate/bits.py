"""Which images a row gets right, stored as one bit per image. Read by the report, so it must not import torch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

FILE = "right.parquet"
Right = dict[str, np.ndarray]
"""Dataset -> (K, N) bool: which images a row gets right with each of K seeds."""


def pack_right(right: np.ndarray) -> bytes:
    """Pack (N,) bool into bits; the inverse of `unpack_right`."""
    return np.packbits(right).tobytes()


def unpack_right(packed: bytes, *, n_images: int) -> np.ndarray:
    """Unpack the bits of `pack_right`: (N,) bool."""
    return np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=n_images).astype(bool)


def right_by_row(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Right]:
    """Group the lines of `FILE` by (method, mode); seeds are stacked in rising order."""
    by_row: dict[tuple[str, str], dict[str, list[np.ndarray]]] = {}
    for line in sorted(lines, key=lambda line: line["seed"]):
        by_dataset = by_row.setdefault((line["method"], line["mode"]), {})
        by_dataset.setdefault(line["dataset"], []).append(unpack_right(line["right"], n_images=line["n_images"]))
    return {row: {name: np.stack(seeds) for name, seeds in datasets.items()} for row, datasets in by_row.items()}
