"""Which test images each judged row gets right, as stage `evaluate` stored them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wsoup.evaluate.bits import unpack_right

FILE = "right.parquet"
Right = dict[str, np.ndarray]
"""Dataset -> (K, N) bool: the images that a row gets right with each seed."""


def right_by_row(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Right]:
    """(method, mode) -> which images are right, seeds in order; from the lines of `FILE`."""
    by_row: dict[tuple[str, str], dict[str, list[np.ndarray]]] = {}
    for line in sorted(lines, key=lambda line: line["seed"]):
        by_dataset = by_row.setdefault((line["method"], line["mode"]), {})
        by_dataset.setdefault(line["dataset"], []).append(unpack_right(line["right"], n_images=line["n_images"]))
    return {row: {name: np.stack(seeds) for name, seeds in datasets.items()} for row, datasets in by_row.items()}
