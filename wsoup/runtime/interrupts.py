"""SIGINT and SIGTERM: one line and exit code 130, at any moment, also while modules are still imported."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)

_interrupted = False


def leave_at_once() -> None:
    """For what a process is started as, before its other imports: an interrupt ends it in one line and with 130.

    There is nothing to clean up until work begins; see `interruptible`.
    """
    for number in SIGNALS:
        signal.signal(number, _leave)
    atexit.register(_leave_with_130)  # the first that is registered is the last to run


@contextmanager
def interruptible() -> Iterator[None]:
    """While work is going on an interrupt is a KeyboardInterrupt, so that half-written files are taken back."""
    before = [signal.signal(number, _raise) for number in SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(sys.stderr.fileno(), b"interrupted before any work was done\n")
    os._exit(INTERRUPTED)


def _raise(number: int, frame: FrameType | None) -> None:
    global _interrupted
    _interrupted = True
    raise KeyboardInterrupt


def _leave_with_130() -> None:
    """CPython ends by SIGINT, not with the exit code asked for, where the interrupt fell into `exec` of a string.

    Dataclasses and named tuples are made that way, so any import can be such a moment.
    """
    if _interrupted:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(INTERRUPTED)
