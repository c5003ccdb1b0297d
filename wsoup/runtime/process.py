"""What wsoup asks of the process that it runs in: interrupts, memory, terminals, and what was spent. No result depends
on any of it.

**Interrupts.** SIGINT and SIGTERM end a stage or a command in one line and with exit code 130, at any moment, also
while modules are still imported. So does, with exit code 1, memory that runs out there.

**Streams** that are closed (``2>&-``, as cron does it) are opened to nowhere: else the next file that is opened takes
their number, and gets what was meant for them.

**Memory** that was given back is used again: on a CPU that halves the time of encoding images. Each layer of a model
asks for a block of up to hundreds of MB and gives it back. glibc's malloc returns such blocks to the system and asks
for others, which the system clears page by page as they are touched: of RN50 that is 40,000 page faults an image and
half of the time. `keep_memory` tells malloc to keep what it has (M_MMAP_MAX, M_TRIM_THRESHOLD and M_ARENA_MAX of
mallopt(3)). A process then holds what it needed at its most, plus what lies between blocks in use; `give_back` returns
what is free once long work is done. Nothing changes where there is no glibc, where the user has set malloc up
(``MALLOC_...``, ``GLIBC_TUNABLES``), or with ``WSOUP_KEEP_MEMORY=0``.

**Spent** are seconds and FLOPs on images and on texts, for ``timings.jsonl`` alone. The paper's split: an evaluation of
239 s takes 234 s for the images and 4.6 s for the texts. Seconds of images include their decoding. On a Ray cluster the
workers' seconds are added up, so they may be more than the stage's own.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import io
import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType

from wsoup.core.errors import ParamsError, WsoupError, memory_error, one_line, storage_error


def number_in(variable: str, default: float, *, what: str = "a number") -> float:
    """A number in the environment; ParamsError where it is none, or negative."""
    text = os.environ.get(variable, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise ParamsError(f"{variable}={one_line(text, limit=80)}: must be {what}, 0 or more")
    return value


# ------------------------------------------------------------------------------------------------------- interrupts

INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)

_code: int | None = None
"""What this process ends with, once that is known."""


def leave_at_once() -> None:
    """For what a process is started as, before its other imports: an interrupt ends it in one line and with 130.

    There is nothing to clean up until work begins; see `interruptible`.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", closefd=False))
    sys.excepthook = _show_error
    for number in SIGNALS:
        signal.signal(number, _leave)
    atexit.register(_leave_with_code)  # the first that is registered is the last to run


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Within, what goes wrong with data, disk or memory ends in one line on stderr and exit code 1.

    So does what cannot be written to stdout, which Python would find out when it is too late for an exit code.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except WsoupError as error:
        said: WsoupError = error
    except OSError as error:
        said = storage_error(error, path=Path.cwd())
    except (RuntimeError, MemoryError, ImportError) as error:
        said = memory_error(error)
    else:
        return
    print(f"error: {one_line(said)}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left is not tried again
    raise SystemExit(1)


def _show_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What ends this process outside of `errors_in_one_line`, while modules are imported."""
    try:
        said = memory_error(error)
    except BaseException:
        sys.__excepthook__(kind, error, trace)
    else:
        print(f"error: {said}", file=sys.stderr)


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, an interrupt is a KeyboardInterrupt, so that half-written files are taken back."""
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
    global _code
    _code = INTERRUPTED
    warnings.simplefilter("ignore", RuntimeWarning)  # a coroutine of zarr that is never awaited now
    raise KeyboardInterrupt


def finished() -> None:
    """All work is done and all files are written: what other libraries' threads do at the end changes nothing."""
    global _code
    _code = 0


def _leave_with_code() -> None:
    """Without the rest of an interpreter's end, which has another say in the exit code.

    CPython ends by SIGINT where an interrupt fell into `exec` of a string; dataclasses and named tuples are made that
    way, so any import can be such a moment. And Arrow's threads now and then abort a process that has ended well
    (github.com/apache/arrow/issues/34314: -6, "terminate called without an active exception").
    """
    if _code is not None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(_code)


# ----------------------------------------------------------------------------------------------------------- memory

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
    _keeps = _keeps or (_may_keep() and _set({**KEPT, M_ARENA_MAX: 1}))
    return _keeps


@contextmanager
def kept_memory() -> Iterator[None]:
    """The same within, in somebody else's process: afterwards malloc is as usual, and what is free is given back."""
    if _keeps or not _may_keep():
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
    if _may_keep():
        ctypes.CDLL(None).malloc_trim(0)


def _set(values: Mapping[int, int]) -> bool:
    libc = ctypes.CDLL(None)
    return all(libc.mallopt(name, value) == 1 for name, value in values.items())


def _may_keep() -> bool:
    theirs = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    return os.environ.get("WSOUP_KEEP_MEMORY", "1") != "0" and not theirs and is_glibc()


def is_glibc() -> bool:
    """Whether malloc is that of the GNU C library."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):  # Windows; macOS and musl, which know no such name
        return False


def peak_bytes() -> int | None:
    """The most memory that this process has held; None on Windows, which has no such figure in Python's library."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # bytes on macOS, KiB elsewhere


# -------------------------------------------------------------------------------------------------------- terminals


def print_anything() -> None:
    r"""Print as ``\xb1`` what a terminal or file cannot show (``±`` where LC_ALL=C is ASCII only), instead of raising
    UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


# ------------------------------------------------------------------------------------------------------------ spent

IMAGES, TEXTS = "images", "texts"

_spent: dict[str, float] = {}


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Count the seconds of a block to `IMAGES` or `TEXTS`."""
    began = time.perf_counter()
    try:
        yield
    finally:
        add_spent({f"{what}_seconds": time.perf_counter() - began})


def add_flops(what: str, flops: float) -> None:
    """Count FLOPs, multiplications and additions in matrix products, to `IMAGES` or `TEXTS`."""
    add_spent({f"{what}_gflops": flops / 1e9})


def add_spent(more: Mapping[str, float]) -> None:
    """Count what another process spent."""
    for key, value in more.items():
        _spent[key] = _spent.get(key, 0.0) + value


def take_spent() -> dict[str, float]:
    """Everything since the last call: ``images_seconds``, ``images_gflops`` and the same of texts, as far as any."""
    spent = {key: round(value, 3) for key, value in _spent.items()}
    _spent.clear()
    return spent
