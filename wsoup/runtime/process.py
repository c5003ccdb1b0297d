"""The process that wsoup runs in: interrupts, memory, terminals and git. Decides no result.

**Interrupts.** SIGINT, SIGTERM and SIGHUP end a stage or a command with one line and exit code 130 at any moment, also
while modules are still being imported. Running out of memory there ends it likewise, with exit code 1.

**Streams** that are closed (``2>&-``, as by cron) are opened on the null device; else the next file that is opened
would take their number and receive their output.

**Memory.** Keeping freed memory halves the time of encoding images on a CPU. Each layer of a model allocates a block
of up to hundreds of MB and frees it. glibc's malloc returns such blocks to the system and asks for new ones, which the
system clears page by page as they are touched: for RN50, 40,000 page faults per image and half of the time.
`keep_memory` tells malloc to keep its blocks (M_MMAP_MAX, M_TRIM_THRESHOLD and M_ARENA_MAX of mallopt(3)). A process
then holds its peak, plus the gaps between blocks in use; `give_back` returns free memory once long work is done. Does
nothing without glibc, where the user has configured malloc (``MALLOC_...``, ``GLIBC_TUNABLES``), or with
``WSOUP_KEEP_MEMORY=0``.
"""

import atexit
import contextlib
import ctypes
import io
import math
import os
import platform
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType

from wsoup.base.errors import ParamsError, WsoupError, memory_error, one_line, storage_error


def number_in(variable: str, default: float) -> float:
    """A number in an environment variable; ParamsError where it is negative, or not a number."""
    text = os.environ.get(variable, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise ParamsError(f"{variable}={one_line(text, limit=80)}: must be a number, 0 or more")
    return value


# ------------------------------------------------------------------------------------------------------- interrupts

INTERRUPTED = 130
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

_exit_code: int | None = None
"""Of this process, once it is known."""


def leave_at_once() -> None:
    """Call in a main program before its other imports: an interrupt ends the process with one line and code 130.

    There is nothing to clean up until work begins; see `interruptible`.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", closefd=False))
    sys.excepthook = _show_error
    for number in _heard():
        signal.signal(number, _leave)
    atexit.register(_leave_with_code)  # registered first, so it runs last


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Turn errors of data, disk or memory within the block into one line on stderr and exit code 1.

    This includes output that cannot be written to stdout, which Python notices too late for an exit code.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except WsoupError as error:
        shown: WsoupError = error
    except OSError as error:
        shown = storage_error(error, path=Path.cwd())
    except (RuntimeError, MemoryError, ImportError) as error:
        shown = memory_error(error)
    else:
        return
    print(f"error: {one_line(shown)}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # do not try to write the rest again
    raise SystemExit(1)


def _show_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """`sys.excepthook`, for errors outside of `errors_in_one_line`, while modules are imported."""
    try:
        print(f"error: {memory_error(error)}", file=sys.stderr)
    except BaseException:
        sys.__excepthook__(kind, error, trace)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt for an interrupt within the block, so that half-written files are removed."""
    before = {number: signal.signal(number, _raise) for number in _heard()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _heard() -> list[signal.Signals]:
    """`SIGNALS` without SIGHUP under `nohup`."""
    return [number for number in SIGNALS if number.name != "SIGHUP" or signal.getsignal(number) != signal.SIG_IGN]


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(sys.stderr.fileno(), b"interrupted before any work was done\n")
    os._exit(INTERRUPTED)


def _raise(number: int, frame: FrameType | None) -> None:
    global _exit_code
    _exit_code = INTERRUPTED
    warnings.simplefilter("ignore", RuntimeWarning)  # about a coroutine of zarr that is not awaited any more
    raise KeyboardInterrupt


def finished() -> None:
    """Call when all files are written: the process ends with 0, whatever other libraries' threads do at exit."""
    global _exit_code
    _exit_code = 0


def _leave_with_code() -> None:
    """Skip the rest of the interpreter's exit, which may change the exit code.

    CPython ends by SIGINT after an interrupt within `exec` of a string; dataclasses and named tuples are made that way,
    so this can happen during any import. And Arrow's threads sometimes abort a process that has succeeded
    (github.com/apache/arrow/issues/34314: -6, "terminate called without an active exception").
    """
    if _exit_code is not None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(_exit_code)


# ----------------------------------------------------------------------------------------------------------- memory

M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8
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
    _keeps = _keeps or (_may_keep() and _set({**KEPT, M_ARENA_MAX: 1}))
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
    configured = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    return os.environ.get("WSOUP_KEEP_MEMORY", "1") != "0" and not configured and is_glibc()


def is_glibc() -> bool:
    """Whether malloc is the GNU C library's."""
    return platform.libc_ver()[0] == "glibc"


# -------------------------------------------------------------------------------------------------------- terminals


def print_anything() -> None:
    r"""Print characters that a terminal or file cannot encode as ``\xb1`` instead of raising UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def git(*arguments: str, folder: Path) -> str | None:
    """Output of a git command; None where it fails, or there is no repository or no git."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout
