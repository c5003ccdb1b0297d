"""Batches of even sizes, halved where memory runs out."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor


def split_evenly(total: int, most: int) -> Iterator[slice]:
    """Slices of `total` items: as few as `most` items in each allow, with sizes that differ by at most one.

    >>> list(split_evenly(7, 3))
    [slice(0, 3, None), slice(3, 5, None), slice(5, 7, None)]
    """
    if not total:
        return
    parts = -(-total // max(1, most))
    size, remainder = divmod(total, parts)
    start = 0
    for i in range(parts):
        stop = start + size + (i < remainder)  # the first parts take one more each
        yield slice(start, stop)
        start = stop


def halving(compute: Callable[[slice], Tensor], part: slice) -> Tensor:
    """compute(part), (n, ...); if memory runs out, its two halves one after the other."""
    try:
        return compute(part)
    except torch.OutOfMemoryError:
        if part.stop - part.start == 1:
            raise
    # The error holds the memory of the failed pass, so the halves are computed outside of the handler.
    middle = (part.start + part.stop) // 2
    first = halving(compute, slice(part.start, middle))
    second = halving(compute, slice(middle, part.stop))
    return torch.cat([first, second])
