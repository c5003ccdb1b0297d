"""Progress bars on stderr, or drawn by the notebook that the code runs in."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tqdm.auto import tqdm

_IN_NOTEBOOK = any(base.__module__ == "tqdm.notebook" for base in tqdm.__mro__)
_shown = ContextVar("bars are drawn", default=True)
_current: list[tqdm] = []


def progress(
    items: Iterable[object] | None = None, *, label: str, total: int | None = None, initial: int = 0, unit: str = "it"
) -> tqdm:
    """A progress bar; where stderr is neither a terminal nor a notebook, one line every ten seconds."""
    is_closed = sys.stderr is None  # as a caller's process may have it: `2>&-`
    seconds = 10.0  # a log need not grow by every step
    if _IN_NOTEBOOK or is_closed or sys.stderr.isatty():
        seconds = 0.2
    return tqdm(
        items,
        desc=label,
        total=total,
        initial=initial,
        unit=unit,
        mininterval=seconds,
        file=sys.stderr,
        ncols=None if _IN_NOTEBOOK else 100,
        disable=is_closed or not _shown.get(),
    )


@contextmanager
def counting(*, label: str, total: int | None, initial: int, unit: str) -> Iterator[tqdm]:
    """A bar that tasks move by `tick`."""
    with progress(label=label, total=total, initial=initial, unit=unit) as bar:
        _current.append(bar)
        try:
            yield bar
        finally:
            _current.pop()


def tick(n: int) -> None:
    """Move the innermost bar of `counting`, if any, by n."""
    if _current:
        _current[-1].update(n)


@contextmanager
def showing(*, bars: bool) -> Iterator[None]:
    """Draw bars within the block, or do not."""
    token = _shown.set(bars)
    try:
        yield
    finally:
        _shown.reset(token)
