"""The image tower of an open_clip ViT CLIP, cut open where training needs it.

Exact to `model.encode_image` up to rounding, gradients included. A pass can start at any block, so that frozen lower
blocks run once for several uses; where the class token is read, the last block has no other query and no other
feed-forward pass. Prompts: see `wsoup.finetune.blocks`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wsoup.core.linear import packed
from wsoup.finetune.blocks import call, project, row_pass, whole_pass, with_deep_prompt
from wsoup.towers.fast import reads_class_token


class TrainableImageTower:
    """The image tower of an open_clip model, read at each call, so that it may be trained.

    Args:
        model: a model that `check_model` lets pass.
        save_memory: recompute the activations of each block in the backward pass instead of keeping them.
    """

    def __init__(self, model: Any, *, save_memory: bool = False) -> None:
        self.visual: Any = model.visual
        self.blocks: list[Any] = list(self.visual.transformer.resblocks)
        self.save_memory = save_memory

    def start(self, pixels: Tensor, *, prompts: Tensor | None = None) -> Tensor:
        """Patches, class token and prompts before the first block: (B, 3, H, W) -> (B, T, width)."""
        x = self.visual._embeds(pixels)
        if prompts is None:
            return x
        return torch.cat([x[:, :1], prompts[0].to(x.dtype).expand(len(x), -1, -1), x[:, 1:]], dim=1)

    def run(self, x: Tensor, *, first: int, stop: int, prompts: Tensor | None = None) -> Tensor:
        """Blocks `first` to `stop` - 1 (never the last, which `finish` does): (B, T, width) -> the same."""
        for i in range(first, stop):
            x = self._call(whole_pass, i, with_deep_prompt(x, prompts, block=i), mask=None)
        return x

    def finish(self, x: Tensor, *, prompts: Tensor | None = None) -> Tensor:
        """Last block, pooling and projection: (B, T, width) -> (B, D), not normalised."""
        visual, last = self.visual, len(self.blocks) - 1
        x = with_deep_prompt(x, prompts, block=last)
        if reads_class_token(visual):
            pooled = visual.ln_post(self._call(row_pass, last, x)[:, 0])
        else:
            pooled = visual._pool(self._call(whole_pass, last, x, mask=None))[0]
        return project(pooled, visual.proj)

    def __call__(self, pixels: Tensor, *, prompts: Tensor | None = None) -> Tensor:
        """(B, 3, H, W) -> (B, D), not normalised."""
        return self.rest(self.start(pixels, prompts=prompts), first=0, prompts=prompts)

    def rest(self, x: Tensor, *, first: int, prompts: Tensor | None = None) -> Tensor:
        """All from block `first` on: (B, T, width) -> (B, D), not normalised."""
        return self.finish(self.run(x, first=first, stop=len(self.blocks) - 1, prompts=prompts), prompts=prompts)

    def _call(self, function: Any, i: int, x: Tensor, **options: Any) -> Tensor:
        return call(function, self.blocks[i], x, save_memory=self.save_memory, **options)


class FrozenImageTower(TrainableImageTower):
    """The pretrained image tower in training: no gradients, no prompts, and blocks that never change.

    On a CPU and in float32 all blocks but the last are packed once for oneDNN, as those that embed a dataset are: the
    same result up to rounding. The last one has little to do, where one token of it is read.

    Args:
        model: a model that `check_model` lets pass; a later change of its weights is not seen.
        dtype: autocast dtype that it is called under, or None.
    """

    def __init__(self, model: Any, *, dtype: torch.dtype | None) -> None:
        super().__init__(model)
        self.whole = [block if dtype is not None else packed(block) for block in self.blocks[:-1]]

    def run(self, x: Tensor, *, first: int, stop: int, prompts: Tensor | None = None) -> Tensor:
        """See `TrainableImageTower.run`."""
        assert prompts is None
        for block in self.whole[first:stop]:
            x = block(x)
        return x
