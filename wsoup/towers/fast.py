"""Faster image towers with the same features up to rounding.

In the last block of a ViT whose feature is the class token, the other tokens are not needed after attention (6.9 % of
the FLOPs of ViT-B-16); likewise only one query of a ResNet's attention pool is needed. On a CPU in float32, products
are also packed for oneDNN and batch norms folded into convolutions. The structure of a tower decides, not its name, and
the result is compared with the original on an image of noise.
"""

from typing import Any

import open_clip
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.core.packed import folded, packed, sharing, with_parts

TOLERANCE = 2e-5
"""Distance of unit features above which the original tower is used; rounding alone gives 1e-7 to 2e-6."""


def with_fast_images(model: nn.Module, *, dtype: torch.dtype | None) -> nn.Module:
    """The same model, or wrapper with an attribute `model`, with a fast `visual`; everything else is shared.

    Args:
        model: an open_clip model, to be called without gradients; later changes of its weights have no effect.
        dtype: autocast dtype of the calls, or None.
    """
    modules = model._modules if isinstance(model, nn.Module) else {}
    changed: dict[str, nn.Module] = {}
    if (visual := modules.get("visual")) is not None:
        changed["visual"] = _fast(visual, dtype=dtype)
    if (inner := modules.get("model")) is not None:
        changed["model"] = with_fast_images(inner, dtype=dtype)
    return with_parts(model, changed) if changed else model


def _fast(visual: nn.Module, *, dtype: torch.dtype | None) -> nn.Module:
    fast = _one_row_at_the_end(visual)
    if dtype is None:
        fast = folded(fast)
    if fast is not visual and not _agree(visual, fast):
        fast = visual
    return fast if dtype is not None else packed(fast)


@torch.no_grad()
def _agree(visual: Any, fast: nn.Module) -> bool:
    """Whether two towers have the same features for an image of noise."""
    size = getattr(visual, "image_size", 224)
    height, width = (size, size) if isinstance(size, int) else size
    noise = torch.rand(1, 3, height, width, generator=torch.Generator().manual_seed(0))
    weight = next(visual.parameters())
    noise = noise.to(weight.device, weight.dtype)
    expected, features = (F.normalize(tower(noise).float(), dim=-1) for tower in (visual, fast))
    return bool((expected - features).norm() <= TOLERANCE)


def _one_row_at_the_end(visual: Any) -> nn.Module:
    """The same tower, computing only the row that is read in its last block or attention pool."""
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
    """Whether the feature of an open_clip ViT is its class token alone."""
    return visual.attn_pool is None and visual.pool_type == "tok"


def _with(module: nn.Module, name: str, child: nn.Module) -> nn.Module:
    """The same module with a child replaced at a dotted name; everything else is shared."""
    first, _, rest = name.partition(".")
    return with_parts(module, {first: _with(module.get_submodule(first), rest, child) if rest else child})


class _FirstRow(open_clip.transformer.ResidualAttentionBlock):
    """A block that computes only its first row: (B, T, width) -> (B, 1, width)."""

    def forward(self, x: Tensor, *_: Any, **options: Any) -> Tensor:
        normed = self.ln_1(x)
        row = x[:, :1] + self.ls_1(self.attn(normed[:, :1], normed, normed, need_weights=False)[0])
        return row + self.ls_2(self.mlp(self.ln_2(row)))


class _OneQuery(open_clip.modified_resnet.AttentionPool2d):
    """A ResNet's attention pool with the mean as its only query: (B, C, H, W) -> (B, D)."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat([x.mean(dim=1, keepdim=True), x], dim=1) + self.positional_embedding.to(x.dtype)
        q, k, v = (
            project(part).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for project, part in ((self.q_proj, x[:, :1]), (self.k_proj, x), (self.v_proj, x))
        )
        return self.c_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(1))
