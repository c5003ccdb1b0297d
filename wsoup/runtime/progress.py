"""Progress bars on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm


def progress(
    items: Iterable[Any] | None = None, *, label: str, total: int | None = None, initial: int = 0, unit: str = "it"
) -> Any:
    """A progress bar on stderr; on anything but a terminal a line every ten seconds at most."""
    interval = 0.2 if sys.stderr.isatty() else 10.0
    return tqdm(
        items, desc=label, total=total, initial=initial, unit=unit, mininterval=interval, file=sys.stderr, ncols=100
    )
