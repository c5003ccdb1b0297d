"""Memory that was given back is used again: on a CPU, images are encoded in half the time for it.

Each layer of a model asks for a block of up to hundreds of MB and gives it back. glibc's malloc hands such blocks to
the system and asks for others, which the system clears page by page as they are touched: of RN50 that is 40,000 page
faults an image and half of the time. `keep_memory` tells malloc to keep what it has (M_MMAP_MAX, M_TRIM_THRESHOLD and
M_ARENA_MAX of mallopt(3)). A process then holds what it needed at its most, plus what lies between blocks in use;
`give_back` returns what is free once long work is done. Nothing changes where there is no glibc, where the user has set
malloc up (``MALLOC_...``, ``GLIBC_TUNABLES``), or with ``WSOUP_KEEP_MEMORY=0``.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8
KEPT = {M_MMAP_MAX: 0, M_TRIM_THRESHOLD: -1}
"""No block is one of the system's own, and the end of the heap stays."""
USUAL = {M_MMAP_MAX: 65536, M_TRIM_THRESHOLD: 128 * 1024}
"""glibc's own values."""
_keeps = False


def keep_memory() -> bool:
    """From now on in this process, and in those that are forked from it; whether that is so.

    Called at the start of all that is a process of wsoup: stages, commands, processes that decode, Ray's workers.
    """
    global _keeps
    _keeps = _keeps or (_wanted() and _set({**KEPT, M_ARENA_MAX: 1}))
    return _keeps


@contextmanager
def kept_memory() -> Iterator[None]:
    """The same within, in somebody else's process: afterwards malloc is as usual, and what is free is given back."""
    if _keeps or not _wanted():
        yield
        return
    _set(KEPT)
    try:
        yield
    finally:
        _set(USUAL)
        give_back()


def give_back() -> None:
    """Return to the system what is free."""
    if _wanted():
        ctypes.CDLL(None).malloc_trim(0)


def _set(values: Mapping[int, int]) -> bool:
    libc = ctypes.CDLL(None)
    return all(libc.mallopt(name, value) == 1 for name, value in values.items())


def _wanted() -> bool:
    theirs = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    return os.environ.get("WSOUP_KEEP_MEMORY", "1") != "0" and not theirs and is_glibc()


def is_glibc() -> bool:
    """Whether malloc is that of the GNU C library."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):  # Windows; macOS and musl, which know no such name
        return False
