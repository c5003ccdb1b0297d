"""What a stage spends on images and on texts: seconds and FLOPs, for ``timings.jsonl`` alone, never for an out.

The paper's split: an evaluation of 239 s takes 234 s for the images and 4.6 s for the texts. Seconds of images hold
their decoding. On a Ray cluster the workers' seconds are added up, so they may be more than the stage's own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

IMAGES, TEXTS = "images", "texts"
_spent: dict[str, float] = {}


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Count the seconds of a block to `IMAGES` or `TEXTS`."""
    began = time.perf_counter()
    try:
        yield
    finally:
        add({f"{what}_seconds": time.perf_counter() - began})


def add_flops(what: str, flops: float) -> None:
    """Count FLOPs, multiplications and additions in matrix products, to `IMAGES` or `TEXTS`."""
    add({f"{what}_gflops": flops / 1e9})


def add(more: Mapping[str, float]) -> None:
    """Count what another process spent."""
    for key, value in more.items():
        _spent[key] = _spent.get(key, 0.0) + value


def take() -> dict[str, float]:
    """Everything since the last call: ``images_seconds``, ``images_gflops`` and the same of texts, as far as any."""
    found = {key: round(value, 3) for key, value in _spent.items()}
    _spent.clear()
    return found
