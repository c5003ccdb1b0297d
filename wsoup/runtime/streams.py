"""What is printed reaches any terminal."""

from __future__ import annotations

import io
import sys


def print_anything() -> None:
    r"""Show as ``\xb1`` what a terminal or file cannot (``±`` where LC_ALL=C is ASCII only), instead of an end."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
