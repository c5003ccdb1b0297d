"""FLOPs of an image through the image tower."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

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
    with _Counter() as counter, torch.no_grad():
        encoder.model.encode_image(torch.zeros(1, 3, height, width, device=weight.device, dtype=weight.dtype))  # type: ignore[operator]
    return counter.flops


class _Counter(TorchDispatchMode):
    """What torch's `FlopCounterMode` counts, without its import of torch's compiler, which takes two seconds."""

    flops = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping it means importing it

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        count = flop_registry.get(func.overloadpacket)
        if count is None:
            with self:
                parts = func.decompose(*args, **kwargs)
            return func(*args, **kwargs) if parts is NotImplemented else parts
        result = func(*args, **kwargs)
        self.flops += count(*args, **kwargs, out_val=result)
        return result
