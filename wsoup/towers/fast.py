"""Image towers laid out for speed: the same features up to rounding, in less time.

Of a ViT whose features are its class token, the last block's other tokens are read by nothing once attention is done
(6.9 % of the FLOPs of ViT-B-16). On a CPU in float32 products are packed for oneDNN and batch norms are folded into
convolutions, too. The tower's own structure decides, not its name, and a first image holds the result to the original.
"""

from __future__ import annotations

import copy
from typing import Any

import open_clip
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.core.convolution import folded
from wsoup.core.linear import packed

TOLERANCE = 2e-5
"""Distance of unit features at which a layout is given up; rounding alone is 1e-7 to 2e-6."""


def with_fast_images(model: nn.Module, *, dtype: torch.dtype | None) -> nn.Module:
    """The same model, or one that holds it as `model` (a tuned one), with a fast `visual`; it shares all else.

    Args:
        model: an open_clip model, to be called without gradients; a later change of its weights is not seen.
        dtype: the autocast dtype that it is called under, or None.
    """
    modules = model._modules if isinstance(model, nn.Module) else {}
    changed: dict[str, nn.Module] = {}
    if (visual := modules.get("visual")) is not None:
        changed["visual"] = _fast(visual, dtype=dtype)
    if (inner := modules.get("model")) is not None:
        changed["model"] = with_fast_images(inner, dtype=dtype)
    if all(modules[name] is child for name, child in changed.items()):
        return model
    twin = copy.copy(model)
    twin._modules = {**modules, **changed}
    return twin


def _fast(visual: nn.Module, *, dtype: torch.dtype | None) -> nn.Module:
    made = _first_row_last(visual)
    if dtype is None:
        made = folded(made)
    if made is not visual and not _agree(visual, made):
        made = visual
    return made if dtype is not None else packed(made)


@torch.no_grad()
def _agree(visual: Any, made: nn.Module) -> bool:
    """Whether two towers have the same features of an image of noise."""
    size = getattr(visual, "image_size", 224)
    height, width = (size, size) if isinstance(size, int) else size
    noise = torch.rand(1, 3, height, width, generator=torch.Generator().manual_seed(0))
    weight = next(visual.parameters())
    noise = noise.to(weight.device, weight.dtype)
    theirs, ours = (F.normalize(tower(noise).float(), dim=-1) for tower in (visual, made))
    return bool((theirs - ours).norm() <= TOLERANCE)


def _first_row_last(visual: Any) -> nn.Module:
    """The same tower, of whose last block the first row alone comes out; itself where more than that row is read."""
    if type(visual) is not open_clip.transformer.VisionTransformer or visual.output_tokens:
        return visual
    last = visual.transformer.resblocks[-1]
    standard = type(last) is open_clip.transformer.ResidualAttentionBlock and not hasattr(last, "ln_1_kv")
    if visual.attn_pool is not None or visual.pool_type != "tok" or not visual.transformer.batch_first or not standard:
        return visual
    made, transformer, blocks = (
        copy.copy(visual),
        copy.copy(visual.transformer),
        copy.copy(visual.transformer.resblocks),
    )
    blocks._modules = {**blocks._modules, str(len(blocks) - 1): _FirstRow.of(last)}
    transformer._modules = {**transformer._modules, "resblocks": blocks}
    made._modules = {**made._modules, "transformer": transformer}
    return made


class _FirstRow(open_clip.transformer.ResidualAttentionBlock):
    """A block that shares everything with another one, and has its first row alone: (B, T, width) -> (B, 1, width)."""

    @classmethod
    def of(cls, block: nn.Module) -> _FirstRow:
        made = cls.__new__(cls)
        made.__dict__.update(block.__dict__)
        return made

    def forward(self, x: Tensor, *_: Any, **options: Any) -> Tensor:
        normed = self.ln_1(x)
        row = x[:, :1] + self.ls_1(self.attn(normed[:, :1], normed, normed, need_weights=False)[0])
        return row + self.ls_2(self.mlp(self.ln_2(row)))
