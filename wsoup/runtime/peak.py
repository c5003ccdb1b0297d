"""The most memory that this process has held, on the systems that say so."""

from __future__ import annotations

import sys


def peak_bytes() -> int | None:
    """In bytes; None on Windows, which has no such figure in Python's library."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # bytes on macOS, KiB elsewhere
