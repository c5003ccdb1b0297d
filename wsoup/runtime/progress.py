"""Progress bars: on stderr, or drawn by the notebook that the code runs in."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from tqdm.auto import tqdm

_IN_NOTEBOOK = any(base.__module__ == "tqdm.notebook" for base in tqdm.__mro__)
_shown = ContextVar("bars are drawn", default=True)
_silent = False
_current: list[Any] = []


@contextmanager
def showing(*, bars: bool) -> Iterator[None]:
    """Within, bars are drawn or not."""
    before = _shown.set(bars)
    try:
        yield
    finally:
        _shown.reset(before)


def silence() -> None:
    """Show no bars in this process: another one shows them."""
    global _silent
    _silent = True


def tick(n: int) -> None:
    """Move the innermost bar of `counting` by n, from inside a task; nothing where there is none."""
    if _current:
        _current[-1].update(n)


@contextmanager
def counting(*, label: str, total: int, initial: int, unit: str) -> Iterator[Any]:
    """A bar that tasks move by `tick`."""
    with progress(label=label, total=total, initial=initial, unit=unit) as bar:
        _current.append(bar)
        try:
            yield bar
        finally:
            _current.pop()


class _Bar(tqdm):
    """One that an interrupt may fall into the making of: what is half made goes without a word."""

    def __del__(self) -> None:
        with suppress(AttributeError):
            super().__del__()


def progress(
    items: Iterable[Any] | None = None, *, label: str, total: int | None = None, initial: int = 0, unit: str = "it"
) -> Any:
    """A progress bar; where stderr is anything but a terminal or a notebook, a line every ten seconds at most."""
    closed = sys.stderr is None  # in somebody's own process: `2>&-`
    return _Bar(
        items,
        desc=label,
        total=total,
        initial=initial,
        unit=unit,
        mininterval=0.2 if _IN_NOTEBOOK or closed or sys.stderr.isatty() else 10.0,
        file=sys.stderr,
        ncols=None if _IN_NOTEBOOK else 100,
        disable=_silent or closed or not _shown.get(),
    )
