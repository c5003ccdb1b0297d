"""Freed memory is kept in the process. Decides no result.

Keeping it halves the time of encoding images on a CPU. Each layer of a model allocates a block of up to hundreds of MB
and frees it. glibc's malloc returns such blocks to the system and asks for new ones, which the system clears page by
page as they are touched: for RN50, 40,000 page faults per image and half of the time. `keep_memory` tells malloc to
keep its blocks (M_MMAP_MAX, M_TRIM_THRESHOLD and M_ARENA_MAX of mallopt(3)). A process then holds its peak, plus the
gaps between blocks in use; `give_back` returns free memory once long work is done. Does nothing without glibc, where
the user has configured malloc (``MALLOC_...``, ``GLIBC_TUNABLES``), or with ``WSOUP_KEEP_MEMORY=0``.
"""

import ctypes
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
M_ARENA_MAX = -8
KEPT = {M_MMAP_MAX: 0, M_TRIM_THRESHOLD: -1}
"""No block is mapped by itself, and the end of the heap is kept."""
DEFAULT = {M_MMAP_MAX: 65536, M_TRIM_THRESHOLD: 128 * 1024}
"""glibc's defaults."""

_keeps = False


def keep_memory() -> bool:
    """Keep freed memory in this process and its forks; returns whether that worked.

    Called at the start of each process of wsoup: stages, commands, decoding workers, Ray's workers.
    """
    global _keeps
    if not _keeps and _may_keep():
        # One arena, or each thread would keep blocks that the others cannot use.
        _keeps = _set({**KEPT, M_ARENA_MAX: 1})
    return _keeps


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep freed memory within the block, for a caller's process; then restore malloc and return what is free."""
    if _keeps or not _may_keep():
        yield
        return
    _set(KEPT)
    try:
        yield
    finally:
        _set(DEFAULT)
        give_back()


def give_back() -> None:
    """Return free memory to the system."""
    if _may_keep():
        ctypes.CDLL(None).malloc_trim(0)


def _set(values: Mapping[int, int]) -> bool:
    libc = ctypes.CDLL(None)
    return all(libc.mallopt(name, value) == 1 for name, value in values.items())


def _may_keep() -> bool:
    if os.environ.get("WSOUP_KEEP_MEMORY", "1") == "0":
        return False
    is_configured = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    return is_glibc() and not is_configured


def is_glibc() -> bool:
    """Whether malloc is the GNU C library's."""
    return platform.libc_ver()[0] == "glibc"
