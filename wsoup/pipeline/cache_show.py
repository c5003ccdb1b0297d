"""The cache folder as a table on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wsoup.disk.store import cache_dir
from wsoup.pipeline.cache import Entry, size_of

UNITS = ("B", "kB", "MB", "GB", "TB")


def show(entries: Sequence[Entry], console: Console) -> None:
    """A table of what there is, useless things last, and the total."""
    table = Table(box=None, pad_edge=False)
    for column in ("what", "whose", "state"):
        table.add_column(column, overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("age", justify="right", no_wrap=True)
    table.add_column("of use", overflow="fold")
    for entry in sorted(entries, key=lambda entry: entry.useless is not None):
        use = "?" if entry.kind == "unknown" else f"no: {entry.useless}" if entry.useless else "yes"
        cells = (entry.kind, entry.name, entry.state, shown_size(entry.size), _shown_age(entry.age), use)
        table.add_row(*map(escape, cells))
    if entries:
        console.print(table, highlight=False)
    useless = [entry.size for entry in entries if entry.useless]
    last = f"; {shown_size(sum(useless))} of no use, which `wsoup cache --prune` removes" if useless else ""
    console.print(f"{cache_dir()}: {shown_size(size_of(cache_dir()))}{last}", highlight=False, markup=False)


def shown_size(size: float) -> str:
    """Bytes for people: 1.5 MB."""
    for unit in UNITS:
        if size < 1000 or unit == UNITS[-1]:
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _shown_age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
