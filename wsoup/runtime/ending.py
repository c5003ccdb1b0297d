"""How a process ends: at an interrupt, an error or the end of its work. Decides no result.

SIGINT, SIGTERM and SIGHUP end a stage or a command with one line and exit code 130 at any moment, also while modules
are still being imported. Running out of memory there ends it likewise, with exit code 1.
"""

import atexit
import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType

from wsoup.base.errors import WsoupError, memory_error, one_line, storage_error
from wsoup.runtime.terminal import open_closed_streams

INTERRUPTED = 130
"""Exit code after an interrupt, as shells have it: 128 and the number of SIGINT."""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

_exit_code: int | None = None
"""The exit code of this process, once it is known."""


def leave_at_once() -> None:
    """Call in a main program before its other imports: an interrupt ends the process with one line and code 130.

    There is nothing to clean up until work begins; see `interruptible`.
    """
    open_closed_streams()
    sys.excepthook = _show_error
    for number in heard():
        signal.signal(number, _leave)
    # Registered first, so that it runs last.
    atexit.register(_leave_with_code)


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Turn errors of data, disk or memory within the block into one line on stderr and exit code 1.

    This includes output that cannot be written to stdout, which Python notices too late for an exit code.
    """
    global _exit_code
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
    # Some libraries print pages as the interpreter ends after an error: Triton lists every object still in a traceback.
    _exit_code = 1
    raise SystemExit(1)


def _show_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """`sys.excepthook`, for errors outside of `errors_in_one_line`, while modules are imported."""
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith(("wsoup", "stages")):
        step = "activate the environment that has it (source .venv/bin/activate), or install it there"
        print(f"error: {sys.executable} does not have the package {error.name}; {step}", file=sys.stderr)
        return
    try:
        print(f"error: {memory_error(error)}", file=sys.stderr)
    except BaseException:
        sys.__excepthook__(kind, error, trace)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt for an interrupt within the block, so that half-written files are removed."""
    before = {number: signal.signal(number, _raise) for number in heard()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def keeping_handlers() -> Iterator[None]:
    """Put back the signal handlers that a library replaces in the block: Ray's prints its own stack and aborts."""
    before = {number: signal.getsignal(number) for number in heard()}
    try:
        yield
    finally:
        # Python allows this in its main thread alone, where stages and commands work.
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                if handler is not None:  # set by other than Python
                    signal.signal(number, handler)


def heard() -> list[signal.Signals]:
    """`SIGNALS` without SIGHUP under `nohup`."""
    return [number for number in SIGNALS if number.name != "SIGHUP" or signal.getsignal(number) != signal.SIG_IGN]


def _leave(number: int, frame: FrameType | None) -> None:
    # No exception: what is being imported might catch it, or show it with a traceback.
    os.write(sys.stderr.fileno(), b"interrupted before any work was done\n")
    os._exit(INTERRUPTED)


def _raise(number: int, frame: FrameType | None) -> None:
    global _exit_code
    _exit_code = INTERRUPTED
    # It would be about a coroutine of zarr that is not awaited any more.
    warnings.simplefilter("ignore", RuntimeWarning)
    raise KeyboardInterrupt


def end_with(closed: Callable[[], object]) -> None:
    """End this process as soon as a call returns or fails, as it does when a pipe's other end is closed.

    The system closes what another process holds when that process is gone, whatever has ended it.
    """

    def wait() -> None:
        with contextlib.suppress(EOFError, OSError):
            closed()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def finished(code: int = 0) -> None:
    """Call when all files are written: the process ends with this code, whatever other libraries' threads do at exit.

    Taking apart what torch and DVC have imported would take another second or two.
    """
    global _exit_code
    _exit_code = code


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
