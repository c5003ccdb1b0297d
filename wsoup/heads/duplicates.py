"""Which features are of the same photo, without a look at every pair.

Two features within `SAME` of each other are as near in every direction. So features are sorted into cells of that size
along three directions, and only those of neighbouring cells are compared: of 16,000 photos a handful.
"""

from collections.abc import Iterator

import numpy as np
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
AT_ONCE = 1 << 16
"""Pairs compared at a time."""


def duplicates(features: Tensor) -> list[tuple[int, int]]:
    """Pairs (earlier row, later row) of the same photo, by the later and then the earlier row.

    Args:
        features: (N, D); a row that is not finite is in no pair.
    """
    values = features.detach().double().cpu().numpy()
    finite = np.flatnonzero(np.isfinite(values).all(axis=1))
    places = _projected(values[finite])
    pairs: list[tuple[int, int]] = []
    for some, others in _neighbours(places):
        near = (np.abs(places[some] - places[others]) < CELL).all(axis=1)
        first, second = finite[some[near]], finite[others[near]]
        for start in range(0, len(first), AT_ONCE // 16):
            part = slice(start, start + AT_ONCE // 16)
            same = np.linalg.norm(values[first[part]] - values[second[part]], axis=1) < SAME
            earlier = np.minimum(first[part], second[part])[same]
            later = np.maximum(first[part], second[part])[same]
            pairs.extend(zip(earlier.tolist(), later.tolist(), strict=True))
    return sorted(pairs, key=lambda pair: (pair[1], pair[0]))


def _projected(values: np.ndarray) -> np.ndarray:
    """Features along fixed directions of length 1: (N, D) -> (N, DIRECTIONS)."""
    directions = named_generator("directions of duplicates").standard_normal((values.shape[1], DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    return values @ directions


def _neighbours(places: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All pairs in the same or in neighbouring cells, each once, in parts: places (N, DIRECTIONS) -> positions (P,)."""
    cells = np.floor(places[:, :IN_CELLS] / CELL).clip(-LARGEST_CELL, LARGEST_CELL).astype(np.int64)
    keys = cells @ np.array(STRIDES)
    by_key = np.argsort(keys, kind="stable")
    keys = keys[by_key]
    # Cells that are neighbours in the last direction alone have adjacent keys.
    after_own = np.arange(1, len(keys) + 1)
    yield from _in_ranges(by_key, after_own, np.searchsorted(keys, keys + 1, side="right"))
    for step in ((0, 1), (1, -1), (1, 0), (1, 1)):  # the other steps are these backwards
        there = keys + step[0] * STRIDES[0] + step[1] * STRIDES[1]
        first = np.searchsorted(keys, there - 1, side="left")
        stop = np.searchsorted(keys, there + 1, side="right")
        yield from _in_ranges(by_key, first, stop)


def _in_ranges(by_key: np.ndarray, first: np.ndarray, stop: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of every sorted feature i with those from `first[i]` to `stop[i]` - 1, all (N,), in parts."""
    sizes = stop - first
    with_some = np.flatnonzero(sizes)
    part_of = sizes[with_some].cumsum() // AT_ONCE
    for rows in np.split(with_some, np.flatnonzero(np.diff(part_of)) + 1):
        ends = sizes[rows].cumsum()
        within = np.arange(sizes[rows].sum()) - np.repeat(ends - sizes[rows], sizes[rows])
        others = np.repeat(first[rows], sizes[rows]) + within
        yield by_key[np.repeat(rows, sizes[rows])], by_key[others]
