"""FLOPs of an image through the image tower."""

from __future__ import annotations

import torch

from wsoup.core.flops import FlopCounter
from wsoup.towers.encoder import Encoder


def image_flops(encoder: Encoder) -> int:
    """Of one image; multiplications and additions. Without weights (on the meta device) nothing is computed.

    0 where the preprocessing is a function of the caller's own, which does not tell its size.
    """
    if "size" not in encoder.preprocessing:
        return 0
    size = encoder.preprocessing["size"]
    height, width = (size, size) if isinstance(size, int) else size
    weight = next(encoder.model.parameters())
    with FlopCounter() as counter, torch.no_grad():
        encoder.model.encode_image(torch.zeros(1, 3, height, width, device=weight.device, dtype=weight.dtype))  # type: ignore[operator]
    return counter.flops
