"""Faster ViTs with the same features up to rounding; every other image tower stays open_clip's own.

Weights are packed for oneDNN on a CPU. Of the last block only the class token is computed where that is all that is
read (6.9 % of the FLOPs of ViT-B-16). Models finetuned from one another share their lower blocks (`images.sharing`).
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.towers.blocks import PackedBlock, foreign_block, split_heads
from wsoup.towers.encoder import Encoder
from wsoup.towers.kept import Kept
from wsoup.towers.library import VisionTransformer
from wsoup.towers.pooling import reads_class_token

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""Distance of unit features above which open_clip's tower is used; rounding alone gives 1e-7 to 2e-6 in float32."""


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


def with_fast_images(model: nn.Module, *, dtype: torch.dtype | None) -> nn.Module:
    """The same model, or wrapper with an attribute `model`, with a fast `visual`; everything else is shared.

    The result is compared with the original on an image of noise.

    Args:
        model: an open_clip model, to be called without gradients; later changes of its weights have no effect.
        dtype: autocast dtype of the calls, or None.
    """
    modules = model._modules if isinstance(model, nn.Module) else {}
    changed: dict[str, nn.Module] = {}
    visual = modules.get("visual")
    if is_covered(visual):
        changed["visual"] = PackedViT(visual, dtype=dtype)
        if not _agree(visual, changed["visual"], dtype=dtype):
            return model
    inner = modules.get("model")
    if inner is not None:
        changed["model"] = with_fast_images(inner, dtype=dtype)
    if all(modules[name] is part for name, part in changed.items()):
        return model
    # A shallow copy with a dictionary of its own: the caller's model keeps its own tower.
    fast = copy.copy(model)
    fast._modules = {**modules, **changed}
    return fast


@torch.no_grad()
def _agree(visual: Any, fast: nn.Module, *, dtype: torch.dtype | None) -> bool:
    """Whether two towers have the same features for an image of noise."""
    weight = visual.conv1.weight
    # A generator of its own, because no check may move the global one.
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(1, 3, *visual.image_size, generator=generator)
    noise = noise.to(weight.device, weight.dtype)
    with torch.autocast(weight.device.type, dtype, enabled=dtype is not None):
        expected = F.normalize(visual(noise).float(), dim=-1)
        features = F.normalize(fast(noise).float(), dim=-1)
    distance = (expected - features).norm()
    return bool(distance <= TOLERANCE.get(dtype or weight.dtype, 0.0))


def fast_images(encoder: Encoder) -> nn.Module:
    """The encoder's model with a fast image tower, made once."""
    if "images" not in encoder.derived:
        kept = encoder.kept or Kept()
        fast = kept.once(("fast images", encoder.dtype), partial(_made_fast, encoder))
        encoder.derived["images"] = fast or encoder.model
    return encoder.derived["images"]


def _made_fast(encoder: Encoder) -> nn.Module | None:
    """None for the model itself, which must not be kept."""
    fast = with_fast_images(encoder.model, dtype=encoder.dtype)
    if fast is encoder.model:
        return None
    return fast
