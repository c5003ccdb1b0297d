"""Where commands print tables: as wide as the terminal, and off a terminal (a file, a pipe) as wide as they are."""

from __future__ import annotations

import sys

from rich.console import Console

UNCUT = 100_000
"""Columns off a terminal, where rich would take 80 and cut."""


def console() -> Console:
    """The console of this process's stdout."""
    return Console(width=None if sys.stdout.isatty() else UNCUT)
