"""Models finetuned from one another pass a batch of images once through the blocks that they share."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from wsoup.images.vit import PackedViT


@contextmanager
def sharing_blocks(models: Sequence[nn.Module]) -> Iterator[None]:
    """Within the block, models from `with_fast_images` pass a batch, the same tensor, once through what they share.

    Models that share other blocks form groups, and each group passes it once: those of one method, or of several that
    train the same blocks.
    """
    towers: list[PackedViT] = []
    for model in models:
        if isinstance(model, nn.Module):  # a user's model may be any object
            towers += [part for part in model.modules() if isinstance(part, PackedViT)]
    for shared, group in _groups(towers).items():
        if len(group) > 1 and _start_alike(group):
            lower = _once_a_batch(group[0], stop=len(shared))
            for tower in group:
                tower.lower = lower
                tower.n_lower = len(shared)
    try:
        yield
    finally:
        for tower in towers:
            tower.lower = None
            tower.n_lower = 0


def _once_a_batch(tower: PackedViT, *, stop: int) -> Callable[[Tensor], Tensor]:
    """The states of a batch before block `stop`; of the same tensor they are computed once."""
    last: list[Tensor] = []  # pixels, and their states

    def lower(pixels: Tensor) -> Tensor:
        # Only the present batch: towers take it one after the other, and nobody asks for an earlier one.
        if not last or last[0] is not pixels:
            last[:] = pixels, tower.run(tower.start(pixels), first=0, stop=stop)
        return last[1]

    return lower


def _groups(towers: Sequence[PackedViT]) -> dict[tuple[nn.Module, ...], list[PackedViT]]:
    """Towers by the most first blocks that each has in common with any other: the same objects, never the last."""
    in_common: Counter[tuple[nn.Module, ...]] = Counter()
    for tower in towers:
        in_common.update(_beginnings(tower))
    groups: dict[tuple[nn.Module, ...], list[PackedViT]] = {}
    for tower in towers:
        shared = [beginning for beginning in _beginnings(tower) if in_common[beginning] > 1]
        groups.setdefault(max(shared, key=len, default=()), []).append(tower)
    return groups


def _beginnings(tower: PackedViT) -> list[tuple[nn.Module, ...]]:
    """The first blocks of a tower: none, the first, the first two, ... all but the last."""
    return [tuple(tower.layers[:n]) for n in range(len(tower.layers))]


def _start_alike(towers: Sequence[PackedViT]) -> bool:
    """Whether all towers have the same weights before the first block, also where these are copies."""
    first = _stem(towers[0])
    return all(all(map(torch.equal, _stem(tower), first)) for tower in towers)


def _stem(tower: PackedViT) -> list[Tensor]:
    """What comes before the first block."""
    return [tower.class_embedding, tower.positional_embedding, *tower.conv1.parameters(), *tower.ln_pre.parameters()]
