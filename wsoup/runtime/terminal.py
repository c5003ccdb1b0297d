"""What a process writes to: its standard streams.

A stream that is closed (``2>&-``, as by cron) is opened on the null device; else the next file that is opened would
take its number and receive its output.
"""

import io
import os
import sys


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
