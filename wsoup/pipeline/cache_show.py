"""The cache folder as a table on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from wsoup.core.disk.store import cache_dir
from wsoup.pipeline.cache import Entry, size_of


def show(entries: Sequence[Entry], console: Console) -> None:
    """A table of what there is, useless things last, and the total."""
    table = Table(box=None, pad_edge=False)
    for column in ("what", "whose", "state"):
        table.add_column(column, overflow="fold")
    for column in ("size", "age"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("of use", overflow="fold")
    for entry in sorted(entries, key=lambda entry: entry.useless is not None):
        use = "?" if entry.kind == "unknown" else f"no: {entry.useless}" if entry.useless else "yes"
        cells = (entry.kind, entry.name, entry.state, decimal(entry.size), _age(entry.age), use)
        table.add_row(*map(escape, cells))
    if entries:
        console.print(table, highlight=False)
    useless = sum(entry.size for entry in entries if entry.useless)
    last = f"; {decimal(useless)} of no use, which `wsoup cache --prune` removes" if useless else ""
    console.print(f"{cache_dir()}: {decimal(size_of(cache_dir()))}{last}", highlight=False, markup=False)


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
