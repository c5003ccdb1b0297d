"""Which images each judged row gets right: its name and its bits, one an image, in files of results.

The report imports this module, so it must not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Right = dict[str, np.ndarray]
"""Dataset -> (K, N) bool: which images a row gets right with each of K seeds."""


def random_beside(name: str) -> str:
    """Name of the random control of a soup in right.parquet."""
    return f"random_beside_{name}"


def all_seeds(name: str) -> str:
    """Name in right.parquet of a soup with all seeds combined, as it is exported (`wsoup.core.soup.load_seeds`)."""
    return f"{name}_all_seeds"


def pack_right(right: np.ndarray) -> bytes:
    """Pack (N,) bool into bits, which `right_by_row` unpacks."""
    return np.packbits(right).tobytes()


def right_by_row(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Right]:
    """Unpack lines of right.parquet or of a method's results, by (method, mode); seeds are stacked in rising order."""
    by_row: dict[tuple[str, str], dict[str, list[np.ndarray]]] = {}
    for line in sorted(lines, key=lambda line: line["seed"]):
        if line.get("right") is None:  # most rows of a finetuned model are only counted
            continue
        by_dataset = by_row.setdefault((line["method"], line["mode"]), {})
        packed = np.frombuffer(line["right"], dtype=np.uint8)
        bits = np.unpackbits(packed, count=line["n_images"])
        by_dataset.setdefault(line["dataset"], []).append(bits.astype(bool))
    rights: dict[tuple[str, str], Right] = {}
    for row, datasets in by_row.items():
        rights[row] = {name: np.stack(seeds) for name, seeds in datasets.items()}
    return rights
