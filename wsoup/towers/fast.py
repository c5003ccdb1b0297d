"""Image towers laid out for speed: the same features up to rounding, in less time.

Of a ViT whose features are its class token, the last block's other tokens are read by nothing once attention is done
(6.9 % of the FLOPs of ViT-B-16), and of a ResNet's attention pool one query is. On a CPU in float32 products are packed
for oneDNN and batch norms are folded into convolutions, too. The tower's own structure decides, not its name, and a
first image holds the result to the original.
"""

from __future__ import annotations

from typing import Any

import open_clip
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.core.convolution import folded
from wsoup.core.linear import packed, sharing, with_parts

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
    return with_parts(model, changed) if changed else model


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
    """The same tower, which computes one row alone where no other is read: its last block's, or its pool's."""
    if type(visual) is open_clip.modified_resnet.ModifiedResNet:
        pool = visual.attnpool
        return _with(visual, "attnpool", sharing(_OneQuery, pool)) if type(pool) is _OneQuery.__base__ else visual
    if type(visual) is not open_clip.transformer.VisionTransformer or visual.output_tokens:
        return visual
    last, blocks = visual.transformer.resblocks[-1], len(visual.transformer.resblocks)
    standard = type(last) is _FirstRow.__base__ and not hasattr(last, "ln_1_kv")
    if not reads_class_token(visual) or not visual.transformer.batch_first or not standard:
        return visual
    return _with(visual, f"transformer.resblocks.{blocks - 1}", sharing(_FirstRow, last))


def reads_class_token(visual: Any) -> bool:
    """Whether the features of an open_clip ViT are its class token, and nothing else of its last block."""
    return visual.attn_pool is None and visual.pool_type == "tok"


def _with(module: nn.Module, name: str, child: nn.Module) -> nn.Module:
    """The same module with another one at a dotted name; it shares all else."""
    first, _, rest = name.partition(".")
    return with_parts(module, {first: _with(module.get_submodule(first), rest, child) if rest else child})


class _FirstRow(open_clip.transformer.ResidualAttentionBlock):
    """A block that shares everything with another one, and has its first row alone: (B, T, width) -> (B, 1, width)."""

    def forward(self, x: Tensor, *_: Any, **options: Any) -> Tensor:
        normed = self.ln_1(x)
        row = x[:, :1] + self.ls_1(self.attn(normed[:, :1], normed, normed, need_weights=False)[0])
        return row + self.ls_2(self.mlp(self.ln_2(row)))


class _OneQuery(open_clip.modified_resnet.AttentionPool2d):
    """A ResNet's pool that shares everything with another one; only its mean asks: (B, C, H, W) -> (B, D)."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat([x.mean(dim=1, keepdim=True), x], dim=1) + self.positional_embedding.to(x.dtype)
        q, k, v = (
            project(part).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for project, part in ((self.q_proj, x[:, :1]), (self.k_proj, x), (self.v_proj, x))
        )
        return self.c_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(1))
