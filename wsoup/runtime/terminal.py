"""What a process writes to: its standard streams.

A stream that is closed (``2>&-``, as by cron) is opened on the null device; else the next file that is opened would
take its number and receive its output.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout


def open_closed_streams() -> None:
    """Open stdin, stdout and stderr on the null device where they are closed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # Takes the lowest free number, which is this one: those before it are open by now.
            os.open(os.devnull, os.O_RDWR)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def print_anything() -> None:
    r"""Print characters that a terminal or file cannot encode as ``\xb1`` instead of raising UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """Send to stderr whatever is printed within the block, also by libraries and by processes that start there.

    A command that prints data works in such a block and prints afterwards, so that stdout holds the data alone.
    """
    sys.stdout.flush()
    stdout = os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stderr.flush()
        os.dup2(stdout, 1)
        os.close(stdout)
