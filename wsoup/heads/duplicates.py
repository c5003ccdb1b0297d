"""Which features are of the same photo, without a look at every pair.

Two features within `SAME` of each other are as near in every direction. So features are sorted into cells of that size
along three directions, and a photo is compared only with those of its own and of neighbouring cells: of 16,000 photos a
handful. Nothing is compared with a copy, so that 16,000 copies of one photo take no more than so many photos.
"""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

from wsoup.core.draws import named_generator

SAME = 1e-3
"""Distance of features below which two photos are the same one; half precision moves a feature by about 5e-4."""
CELL = 1.001 * SAME
"""Side of a cell: the rounding of a projection is far below the margin."""
IN_CELLS = 3
"""Directions of the cells."""
DIRECTIONS = 12
"""Directions in which two photos must be near before their distance is taken."""
LARGEST_CELL = 1 << 19
"""Cells further out are taken for this one, so that three of them fit into an int64; unit features stay below 1,000."""
STRIDES = (1 << 42, 1 << 21, 1)
"""What a step to the next cell adds to a key, in each direction of the cells."""
AT_ONCE = 1 << 14
"""Features projected at a time."""


def originals(features: Tensor) -> Tensor:
    """Each photo's original: the row itself, or where it is a copy, the first row of which it is one.

    A row is a copy if it lies within `SAME` of an earlier row that is not a copy itself. So no two originals are the
    same photo, and every copy is near its own original.

    Args:
        features: (N, D), may be memory-mapped; a row that is not finite is its own original.

    Returns:
        (N,) int64.
    """
    places = _places(features)
    finite = np.isfinite(places).all(axis=1)
    cells = np.floor(places[finite, :IN_CELLS] / CELL).clip(-LARGEST_CELL, LARGEST_CELL).astype(np.int64)
    keys = (cells @ np.array(STRIDES)).tolist()
    steps = _steps()
    of_rows = list(range(len(features)))
    in_cells: dict[int, list[int]] = {}
    for row, key in zip(np.flatnonzero(finite).tolist(), keys, strict=True):
        around: list[int] = []
        for step in steps:
            around += in_cells.get(key + step, ())
        original = _original(features, places=places, row=row, others=sorted(around)) if around else row
        if original == row:
            in_cells.setdefault(key, []).append(row)
        of_rows[row] = original
    return torch.tensor(of_rows, dtype=torch.int64)


def _places(features: Tensor) -> np.ndarray:
    """Features along fixed directions of length 1: (N, D) -> (N, DIRECTIONS) float64, NaN of one that is not finite."""
    directions = named_generator("directions of duplicates").standard_normal((features.shape[1], DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    places = np.empty((len(features), DIRECTIONS))
    for start in range(0, len(features), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        values = features[part].detach().double().cpu().numpy()
        finite = np.isfinite(values).all(axis=1, keepdims=True)
        places[part] = np.where(finite, np.where(finite, values, 0.0) @ directions, np.nan)
    return places


def _steps() -> list[int]:
    """What leads from the key of a cell to its own and to those of its neighbours."""
    return [int(np.dot(step, STRIDES)) for step in itertools.product((-1, 0, 1), repeat=IN_CELLS)]


def _original(features: Tensor, *, places: np.ndarray, row: int, others: list[int]) -> int:
    """The first of other rows that is the same photo, or the row itself."""
    near = (np.abs(places[others] - places[row]) < CELL).all(axis=1).tolist()
    for other in itertools.compress(others, near):
        if (features[other].double() - features[row].double()).norm() < SAME:
            return other
    return row
