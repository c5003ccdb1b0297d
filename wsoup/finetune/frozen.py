"""The pretrained image tower in training: no gradients, so its weights may be laid out for speed.

It is what a step of a method that leaves the image tower alone spends most of its time in, once texts are cheap.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.finetune.blocks import project
from wsoup.finetune.image_tower import TrainableImageTower
from wsoup.texts.forward import split_heads
from wsoup.texts.packed import Block


class FrozenImageTower(TrainableImageTower):
    """`TrainableImageTower` of a model that is never trained, to be called without gradients.

    On a CPU and in float32 the weights are packed once for oneDNN, with activation and residual sum fused into the
    matrix products: the same result up to rounding. That takes the memory of the blocks once more.

    Args:
        model: a model that `check_model` lets pass; a later change of its weights is not seen.
        dtype: autocast dtype that it is called under, or None.
    """

    def __init__(self, model: Any, *, dtype: torch.dtype | None) -> None:
        super().__init__(model)
        self.heads = self.blocks[0].attn.num_heads
        self.packed: list[Block] = []
        weight = self.blocks[0].attn.in_proj_weight
        full = dtype is None and weight.dtype == torch.float32
        if full and weight.device.type == "cpu":
            last = len(self.blocks) - 1 if self._reads_class_token else None
            with torch.no_grad():
                self.packed = [Block(b, dtype=weight.dtype, last=i == last) for i, b in enumerate(self.blocks)]

    @property
    def _reads_class_token(self) -> bool:
        return self.visual.attn_pool is None and self.visual.pool_type == "tok"

    def run(self, x: Tensor, *, first: int, stop: int, prompts: Tensor | None = None) -> Tensor:
        """See `TrainableImageTower.run`; the pretrained tower takes no prompts."""
        if not self.packed or prompts is not None:
            return super().run(x, first=first, stop=stop, prompts=prompts)
        for block in self.packed[first:stop]:
            x = self._block(block, x)
        return x

    def finish(self, x: Tensor, *, prompts: Tensor | None = None) -> Tensor:
        """See `TrainableImageTower.finish`."""
        if not self.packed or prompts is not None:
            return super().finish(x, prompts=prompts)
        block = self.packed[-1]
        if not self._reads_class_token:
            return project(self.visual._pool(self._block(block, x))[0], self.visual.proj)
        normed = block.ln_1(x)
        (q,) = self._split(block.q(normed[:, :1].contiguous()), parts=1)  # (B, heads, 1, head size)
        k, v = self._split(block.kv(normed), parts=2)
        pooled = self._rest(block, x[:, :1].contiguous(), F.scaled_dot_product_attention(q, k, v))
        return project(self.visual.ln_post(pooled[:, 0]), self.visual.proj)

    def _block(self, block: Block, x: Tensor) -> Tensor:
        """One residual attention block: (B, T, width) -> the same."""
        q, k, v = self._split(block.qkv(block.ln_1(x)), parts=3)
        return self._rest(block, x, F.scaled_dot_product_attention(q, k, v))

    def _rest(self, block: Block, x: Tensor, mixed: Tensor) -> Tensor:
        """Output projection and feed-forward, each added to what comes in: (B, T, width), (B, heads, T, head size)."""
        x = block.out.add_to(x, mixed.transpose(1, 2).flatten(2))
        return block.proj.add_to(x, block.fc(block.ln_2(x), act=block.act))

    def _split(self, x: Tensor, *, parts: int) -> Tensor:
        return split_heads(x, parts=parts, heads=self.heads)
