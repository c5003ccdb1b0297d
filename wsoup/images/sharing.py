"""Models finetuned from one another pass a batch of images once through the blocks that they share."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from wsoup.images.vit import PackedViT


@contextmanager
def sharing_blocks(models: Sequence[nn.Module]) -> Iterator[None]:
    """Within the block, models from `with_fast_images` pass a batch, the same tensor, once through what they share."""
    towers: list[PackedViT] = []
    for model in models:
        if isinstance(model, nn.Module):  # a user's model may be any object
            towers += [part for part in model.modules() if isinstance(part, PackedViT)]
    n_shared = _n_shared_blocks(towers)
    last: list[Tensor] = []  # pixels, and their states before block n_shared

    def lower(pixels: Tensor) -> Tensor:
        # Only the present batch: towers take it one after the other, and nobody asks for an earlier one.
        if not last or last[0] is not pixels:
            start = towers[0].start(pixels)
            last[:] = pixels, towers[0].run(start, first=0, stop=n_shared)
        return last[1]

    if len(towers) > 1 and _start_alike(towers):
        for tower in towers:
            tower.lower = lower
            tower.n_lower = n_shared
    try:
        yield
    finally:
        for tower in towers:
            tower.lower = None
            tower.n_lower = 0


def _n_shared_blocks(towers: Sequence[PackedViT]) -> int:
    """How many first blocks are the same objects in all towers; the last block is never counted."""
    n = 0
    for same_place in zip(*[tower.layers[:-1] for tower in towers], strict=False):
        if len(set(same_place)) > 1:
            break
        n += 1
    return n


def _start_alike(towers: Sequence[PackedViT]) -> bool:
    """Whether all towers have the same weights before the first block, also where these are copies."""
    first = _stem(towers[0])
    return all(all(map(torch.equal, _stem(tower), first)) for tower in towers)


def _stem(tower: PackedViT) -> list[Tensor]:
    """What comes before the first block."""
    return [tower.class_embedding, tower.positional_embedding, *tower.conv1.parameters(), *tower.ln_pre.parameters()]
