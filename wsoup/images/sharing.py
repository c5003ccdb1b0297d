"""Models finetuned from one another pass a batch of images once through the blocks that they share."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile

import torch
from torch import Tensor, nn

from wsoup.images.vit import PackedViT


@contextmanager
def sharing_blocks(models: Sequence[nn.Module]) -> Iterator[None]:
    """Within the block, models from `with_fast_images` pass a batch, the same tensor, once through what they share."""
    modules = [model for model in models if isinstance(model, nn.Module)]  # a user's model may be any object
    towers = [part for model in modules for part in model.modules() if isinstance(part, PackedViT)]
    stems = [_stem(tower) for tower in towers]
    blocks = zip(*(tower.layers[:-1] for tower in towers), strict=False)
    n = sum(1 for _ in takewhile(lambda same: len(set(same)) == 1, blocks))
    last: list[Tensor] = []  # pixels, and their states before block n

    def lower(pixels: Tensor) -> Tensor:
        if not last or last[0] is not pixels:
            last[:] = pixels, towers[0].run(towers[0].start(pixels), first=0, stop=n)
        return last[1]

    if len(towers) > 1 and all(all(map(torch.equal, stem, stems[0])) for stem in stems):
        for tower in towers:
            tower.lower, tower.n_lower = lower, n
    try:
        yield
    finally:
        for tower in towers:
            tower.lower, tower.n_lower = None, 0


def _stem(tower: PackedViT) -> list[Tensor]:
    """What comes before the first block."""
    return [tower.class_embedding, tower.positional_embedding, *tower.conv1.parameters(), *tower.ln_pre.parameters()]
