"""open_clip's towers, cut open for training: what the image tower and the text tower share.

Both equal `model.encode_image` and `model.encode_text` up to rounding, gradients included, and skip work:

* a pass can start at any block, so that frozen lower blocks run once for several uses;
* the last block computes only the rows that are read: the class token, or the end-of-text;
* texts are cut at their longest end, and a common prefix ("a photo of a") is computed once.

Prompts are (depth, n, width). Before the first block, the first of them replaces the n embeddings after the start token
(text; section 3 of CoOp, arXiv 2109.01134) or is inserted after the class token (images; VPT, arXiv 2203.12119). Before
block i < depth the i-th replaces the same positions (deep prompts; MaPLe, arXiv 2210.03117).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


class Tower:
    """The blocks of a transformer; weights are read at each call, so they may change."""

    save_memory = False
    """Whether activations are recomputed in the backward pass."""

    def __init__(self, tower: Any) -> None:
        self.blocks = list(tower.transformer.resblocks)

    def call(self, function: Callable[..., Any], i: int, *states: Tensor, **options: object) -> Any:
        """Apply a pass to block i; to save memory, its activations are recomputed in the backward pass."""
        if self.save_memory and torch.is_grad_enabled():
            return checkpoint(partial(function, **options), self.blocks[i], *states, use_reentrant=False)
        return function(self.blocks[i], *states, **options)


def deep_prompt(x: Tensor, prompts: Tensor | None, *, block: int) -> Tensor:
    """(B, T, width) before a block, with its deep prompt if it has one; the first block has none."""
    if prompts is None or not 0 < block < len(prompts):
        return x
    return replace_prompt(x, prompts[block])


def replace_prompt(x: Tensor, prompt: Tensor) -> Tensor:
    """Replace positions 1..n of (B, T, width) by (n, width)."""
    rows = prompt.to(x.dtype).expand(len(x), -1, -1)
    return torch.cat([x[:, :1], rows, x[:, 1 + len(prompt) :]], dim=1)
