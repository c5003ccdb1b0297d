"""Memory shared by processes, for pixels on their way from the one that decodes to the one that asked for them.

A pipe holds 64 KiB, so for a piece of 5 MB both ends wait for each other some seventy times, and each time for a core
where others use them all. This memory is no file of /dev/shm, which may be small (Docker gives 64 MiB).
"""

from __future__ import annotations

import math
import mmap
import os
from multiprocessing import reduction
from typing import NamedTuple

import numpy as np

APART = 1 << 32
"""Bytes from one place to the next. Memory is taken only for what is written."""


class Kept(NamedTuple):
    """An array uint8 of this shape, which lies in a place."""

    shape: tuple[int, ...]


class Places:
    """Numbered places for one array each; may be handed to a process that is started.

    Every process maps a place when it first uses it: copies to and from it then take a tenth of the time of `os.pread`.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._mapped: dict[int, mmap.mmap] = {}

    @classmethod
    def new(cls, count: int) -> Places | None:
        """None where the system has no such memory (memfd), which is Linux's."""
        try:
            file = os.memfd_create("wsoup-pixels")
        except (AttributeError, OSError):
            return None
        try:
            os.ftruncate(file, count * APART)
        except OSError:  # files are limited
            os.close(file)
            return None
        return cls(file)

    def __reduce__(self) -> tuple[object, ...]:
        return _opened, (reduction.DupFd(self._file),)

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
        size = math.prod(shape)
        if place not in self._mapped or len(self._mapped[place]) < size:
            self._mapped[place] = mmap.mmap(self._file, size, offset=place * APART)
        return np.ndarray(shape, dtype=np.uint8, buffer=self._mapped[place])

    def close(self) -> None:
        """Give the memory back, once the other processes have ended, too."""
        self._mapped.clear()
        os.close(self._file)


def _opened(file: reduction.DupFd) -> Places:  # type: ignore[valid-type]
    return Places(file.detach())  # type: ignore[attr-defined]
