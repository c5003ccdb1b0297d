"""Which images are right, one bit an image: what evaluation stores and the report reads. No torch here."""

from __future__ import annotations

import numpy as np


def pack_right(right: np.ndarray) -> bytes:
    """Which images are right, (N,) bool, as bits to store; see `unpack_right`."""
    return np.packbits(right).tobytes()


def unpack_right(packed: bytes, *, n_images: int) -> np.ndarray:
    """What `pack_right` packed: (N,) bool."""
    return np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=n_images).astype(bool)
