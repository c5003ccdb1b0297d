"""open_clip's image tower (a ViT) in training; see `wsoup.finetune.towers`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from wsoup.finetune.blocks import block_pass, first_row_pass
from wsoup.finetune.towers import Tower, deep_prompt
from wsoup.images.vit import PackedViT, is_covered
from wsoup.towers.pooling import reads_class_token


class TrainableImageTower(Tower):
    """The image tower of an open_clip model.

    Args:
        model: a model that passes `check_model`.
    """

    def __init__(self, model: nn.Module) -> None:
        self.visual: Any = model.visual
        super().__init__(self.visual)

    def start(self, pixels: Tensor, *, prompts: Tensor | None = None) -> Tensor:
        """Class token, prompts and patches before the first block: (B, 3, H, W) -> (B, T, width)."""
        x = self.visual._embeds(pixels)
        if prompts is None:
            return x
        rows = prompts[0].to(x.dtype).expand(len(x), -1, -1)
        return torch.cat([x[:, :1], rows, x[:, 1:]], dim=1)

    def run(self, x: Tensor, *, first: int, stop: int, prompts: Tensor | None = None) -> Tensor:
        """Blocks `first` to `stop` - 1, not the last, which is for `run_from`: (B, T, width) -> (B, T, width)."""
        for i in range(first, stop):
            x = self.call(block_pass, i, deep_prompt(x, prompts, block=i))
        return x

    def run_from(self, x: Tensor, *, first: int, prompts: Tensor | None = None) -> Tensor:
        """Blocks from `first` on, pooling and projection: (B, T, width) -> (B, D), not normalised."""
        visual = self.visual
        last = len(self.blocks) - 1
        x = self.run(x, first=first, stop=last, prompts=prompts)
        x = deep_prompt(x, prompts, block=last)
        if reads_class_token(visual):
            class_token = self.call(first_row_pass, last, x)[:, 0]
            pooled = visual.ln_post(class_token)
        else:
            x = self.call(block_pass, last, x)
            pooled, _ = visual._pool(x)
        return pooled @ visual.proj

    def __call__(self, pixels: Tensor, *, prompts: Tensor | None = None) -> Tensor:
        """(B, 3, H, W) -> (B, D), not normalised."""
        return self.run_from(self.start(pixels, prompts=prompts), first=0, prompts=prompts)


class FrozenImageTower(TrainableImageTower):
    """The pretrained image tower, called without gradients or prompts; blocks but the last have packed weights.

    Args:
        model: a model that passes `check_model`; later changes of its weights have no effect.
        dtype: autocast dtype of the calls, or None.
    """

    def __init__(self, model: nn.Module, *, dtype: torch.dtype | None) -> None:
        super().__init__(model)
        self.packed = None
        if is_covered(model.visual):
            self.packed = PackedViT(model.visual, dtype=dtype)

    def run(self, x: Tensor, *, first: int, stop: int, prompts: Tensor | None = None) -> Tensor:
        """See `TrainableImageTower.run`."""
        if self.packed is None:
            return super().run(x, first=first, stop=stop)
        return self.packed.run(x, first=first, stop=stop)
