"""Progress bars on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

_silent = False
_current: list[Any] = []


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


def progress(
    items: Iterable[Any] | None = None, *, label: str, total: int | None = None, initial: int = 0, unit: str = "it"
) -> Any:
    """A progress bar on stderr; on anything but a terminal a line every ten seconds at most."""
    interval = 0.2 if sys.stderr.isatty() else 10.0
    return tqdm(
        items,
        desc=label,
        total=total,
        initial=initial,
        unit=unit,
        mininterval=interval,
        file=sys.stderr,
        ncols=100,
        disable=_silent,
    )
