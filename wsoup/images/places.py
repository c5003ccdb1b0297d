"""Memory shared by processes, for pixels on their way from the one that decodes to the one that asked for them.

A pipe holds 64 KiB, so for a piece of 5 MB both ends wait for each other some seventy times, and each time for a core
where others use them all. This memory is no file of /dev/shm, which may be small (Docker gives 64 MiB).
"""

from __future__ import annotations

import mmap
import os
from multiprocessing import reduction
from typing import NamedTuple

import numpy as np

APART = 1 << 30
"""Bytes from one place to the next. Memory is taken only for what is written."""


class Kept(NamedTuple):
    """An array uint8 of this shape, which lies in a place."""

    shape: tuple[int, ...]


class Places:
    """Numbered places for one array each; may be handed to a process that is started.

    Every process maps all places at once: a copy to or from one takes a tenth of the time of `os.pread`, and each map
    would take a descriptor, of which a process may have few.
    """

    def __init__(self, file: int, *, count: int) -> None:
        self._file = file
        self._count = count
        self._mapped: mmap.mmap | None = None

    @classmethod
    def new(cls, count: int) -> Places | None:
        """None where the system has no such memory (memfd), which is Linux's, or limits files or addresses."""
        try:
            file = os.memfd_create("wsoup-pixels")
        except (AttributeError, OSError):
            return None
        places = cls(file, count=count)
        try:
            os.ftruncate(file, count * APART)
            places._map()
        except (OSError, ValueError):
            os.close(file)
            return None
        return places

    def __reduce__(self) -> tuple[object, ...]:
        return _opened, (reduction.DupFd(self._file), self._count)

    def put(self, array: np.ndarray, *, place: int) -> Kept | np.ndarray:
        """Write an array uint8; returns the array if it is empty or there is no room for it."""
        if not 0 < array.size <= APART:
            return array
        try:
            there = self._array(array.shape, place=place)
        except (OSError, ValueError):
            return array
        np.copyto(there, array)
        return Kept(array.shape)

    def get(self, kept: Kept, *, place: int) -> np.ndarray:
        """A copy, so that the place may be used again."""
        return self._array(kept.shape, place=place).copy()

    def _array(self, shape: tuple[int, ...], *, place: int) -> np.ndarray:
        return np.ndarray(shape, dtype=np.uint8, buffer=self._map(), offset=place * APART)

    def _map(self) -> mmap.mmap:
        if self._mapped is None:
            self._mapped = mmap.mmap(self._file, self._count * APART)
        return self._mapped

    def close(self) -> None:
        """Give the memory back, once the other processes have ended, too."""
        self._mapped = None
        os.close(self._file)


def _opened(file: reduction.DupFd, count: int) -> Places:  # type: ignore[valid-type]
    return Places(file.detach(), count=count)  # type: ignore[attr-defined]
