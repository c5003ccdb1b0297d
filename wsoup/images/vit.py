"""A faster ViT with the same features up to rounding.

Weights are packed for oneDNN on a CPU. Of the last block only the class token is computed where that is all that is
read (6.9 % of the FLOPs of ViT-B-16). Models finetuned from one another share their lower blocks (`images.sharing`).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.towers.blocks import PackedBlock, foreign_block, split_heads
from wsoup.towers.library import VisionTransformer
from wsoup.towers.pooling import reads_class_token


class PackedViT(VisionTransformer):
    """open_clip's ViT, for calls without gradients.

    It shares everything with `visual`, which is not changed. Later changes of weights have no effect on blocks that
    were used before, because these are packed then.

    Args:
        visual: a tower that `is_covered`.
        dtype: autocast dtype of the calls, or None.
    """

    def __init__(self, visual: Any, *, dtype: torch.dtype | None) -> None:
        # Not a copy: `nn.Module.__init__` would make new dictionaries, and weights must stay those of `visual`.
        self.__dict__.update(visual.__dict__)
        self.layers = list(visual.transformer.resblocks)
        self.dtype: torch.dtype = dtype or self.layers[0].attn.in_proj_weight.dtype
        self.heads = self.layers[0].attn.num_heads
        self.reads_first_row = reads_class_token(visual)
        self._packed: dict[int, PackedBlock] = {}
        self.lower: Callable[[Tensor], Tensor] | None = None
        self.n_lower = 0

    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, D), not normalised."""
        states = self.start(x) if self.lower is None else self.lower(x)
        return self.run_from(states, first=self.n_lower)

    def start(self, pixels: Tensor) -> Tensor:
        """Class token and patches before the first block: (B, 3, H, W) -> (B, T, width)."""
        x: Tensor = self._embeds(pixels)
        return x

    def run(self, x: Tensor, *, first: int, stop: int) -> Tensor:
        """Blocks `first` to `stop` - 1: (B, T, width) -> (B, T, width)."""
        for i in range(first, stop):
            block = self._block(i)
            qkv = block.qkv(block.normed(x))
            q, k, v = split_heads(qkv, parts=3, heads=self.heads)
            x = block.after_attention(x, _mixed(q, k, v))
        return x

    def run_from(self, x: Tensor, *, first: int) -> Tensor:
        """Everything from block `first` on: (B, T, width) -> (B, D), not normalised."""
        last = len(self.layers) - 1
        if self.reads_first_row:
            x = self.run(x, first=first, stop=last)
            block = self._block(last)
            normed = block.normed(x)
            # The class token alone asks, and every token answers.
            (q,) = split_heads(block.q(normed[:, :1]), parts=1, heads=self.heads)
            k, v = split_heads(block.kv(normed), parts=2, heads=self.heads)
            class_token = block.after_attention(x[:, :1], _mixed(q, k, v))
            pooled = self.ln_post(class_token[:, 0])
        else:
            x = self.run(x, first=first, stop=last + 1)
            pooled, _ = self._pool(x)
        if self.proj is None:
            return pooled
        return pooled @ self.proj

    def _block(self, i: int) -> PackedBlock:
        if i not in self._packed:
            is_cut = self.reads_first_row and i == len(self.layers) - 1
            self._packed[i] = PackedBlock(self.layers[i], dtype=self.dtype, last=is_cut)
        return self._packed[i]


def _mixed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of all heads: (B, heads, T, head size) each -> (B, T, width)."""
    mixed = F.scaled_dot_product_attention(q, k, v)
    return mixed.transpose(1, 2).flatten(2)


def is_covered(visual: Any) -> bool:
    """Whether `PackedViT` does what this image tower does, read from its structure."""
    if type(visual) is not VisionTransformer or visual.output_tokens or not visual.transformer.batch_first:
        return False
    # A hook expects open_clip's own calls, which a faster tower does not make.
    if any(part._forward_hooks or part._forward_pre_hooks for part in visual.modules()):
        return False
    return foreign_block(visual.transformer.resblocks) is None
