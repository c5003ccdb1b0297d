"""Image towers that are faster with the same features up to rounding; any other tower stays open_clip's own."""

import copy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.images.convolutions import has_norms, with_folded_norms
from wsoup.images.vit import PackedViT, is_covered
from wsoup.towers.encoder import Encoder
from wsoup.towers.kept import Kept

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""Distance of unit features above which open_clip's tower is used; rounding alone gives 1e-7 to 2e-6 in float32."""


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
    elif has_norms(visual):
        changed["visual"] = with_folded_norms(visual, images=_noise(visual))
    if "visual" in changed and not _agree(visual, changed["visual"], dtype=dtype):
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


def _noise(visual: Any) -> Tensor:
    """An image of noise that a tower can encode: (1, 3, H, W)."""
    weight = next(visual.parameters())
    # A generator of its own, because no check may move the global one.
    generator = torch.Generator().manual_seed(0)
    size = visual.image_size
    height, width = (size, size) if isinstance(size, int) else size
    noise = torch.rand(1, 3, height, width, generator=generator)
    return noise.to(weight.device, weight.dtype)


@torch.no_grad()
def _agree(visual: Any, fast: nn.Module, *, dtype: torch.dtype | None) -> bool:
    """Whether two towers have the same features for an image of noise."""
    noise = _noise(visual)
    with torch.autocast(noise.device.type, dtype, enabled=dtype is not None):
        expected = F.normalize(visual(noise).float(), dim=-1)
        features = F.normalize(fast(noise).float(), dim=-1)
    distance = (expected - features).norm()
    return bool(distance <= TOLERANCE.get(dtype or noise.dtype, 0.0))


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
