"""Progress bars: on stderr, or drawn by the notebook that the code runs in."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tqdm.auto import tqdm

_SHOWN = ContextVar("bars are drawn", default=True)
_IN_NOTEBOOK = any(base.__module__ == "tqdm.notebook" for base in tqdm.__mro__)


@contextmanager
def showing(*, bars: bool) -> Iterator[None]:
    """Within, bars are drawn or not."""
    before = _SHOWN.set(bars)
    try:
        yield
    finally:
        _SHOWN.reset(before)


def progress(
    items: Iterable[Any] | None = None, *, label: str, total: int | None = None, initial: int = 0, unit: str = "it"
) -> Any:
    """A progress bar; where stderr is anything but a terminal or a notebook, a line every ten seconds at most."""
    return tqdm(
        items,
        desc=label,
        total=total,
        initial=initial,
        unit=unit,
        mininterval=0.2 if _IN_NOTEBOOK or sys.stderr.isatty() else 10.0,
        file=sys.stderr,
        ncols=None if _IN_NOTEBOOK else 100,
        disable=not _SHOWN.get(),
    )
