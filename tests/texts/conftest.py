"""Small text towers of every kind in open_clip, with random weights, and the plain way to encode with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import open_clip
import pytest
import torch
from open_clip.coca_model import CoCa
from torch import Tensor, nn
from torch.nn import functional as F
from tower_cases import clip_tokenizer

VISION = {"image_size": 16, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8}
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 3}


def clip(*, quick_gelu: bool = False, vision: dict | None = None, **text) -> nn.Module:
    return open_clip.CLIP(24, VISION | (vision or {}), TEXT | text, quick_gelu=quick_gelu)


def custom(**text) -> nn.Module:
    return open_clip.CustomTextCLIP(24, VISION, TEXT | text)


def coca(**options) -> nn.Module:
    vision = VISION | {"attentional_pool": True, "attn_pooler_heads": 4, "output_tokens": True}
    text = TEXT | {"context_length": 76, "embed_cls": True, "output_tokens": True} | options
    decoder = {"context_length": 76, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 1}
    return CoCa(24, decoder, text, vision)


def coca_true_mask() -> nn.Module:
    """No config of open_clip can ask for this mask: the class token sees itself, and padding is hidden."""
    model = coca()
    model.text.correct_cls_mask = True
    return model


FAMILIES: dict[str, tuple[Callable[[], nn.Module], bool]] = {
    "clip": (clip, True),
    "quick_gelu": (lambda: clip(quick_gelu=True), True),
    "tanh_gelu": (lambda: custom(act_kwargs={"approximate": "tanh"}), True),
    "resnet": (lambda: clip(vision={"layers": [1, 1, 1, 1], "width": 8, "image_size": 32}), True),
    "one_block": (lambda: clip(layers=1), True),
    "custom_text": (custom, True),
    "layer_scale": (lambda: custom(ls_init_value=0.5), True),
    "projection_bias": (lambda: custom(proj_bias=True), True),
    "no_projection": (lambda: custom(proj_type="none"), True),
    "end_of_text_by_id": (lambda: custom(pool_type="eos", eos_id=49407), True),
    "short_context": (lambda: clip(context_length=24), True),
    "coca": (coca, True),
    "coca_short_context": (lambda: coca(context_length=24), True),
    "coca_true_mask": (coca_true_mask, False),
    "two_way": (lambda: custom(no_causal_mask=True), False),
    "siglip": (lambda: custom(no_causal_mask=True, proj_bias=True, pool_type="last"), False),
    "other_blocks": (lambda: custom(qk_norm=True, scale_fc=True), False),
}


def randomise(model: nn.Module) -> nn.Module:
    """Make every parameter random, norms and biases too, so that a test notices one that is left out."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, p in model.named_parameters():
            scale = p.shape[-1] ** -0.5 if p.ndim > 1 else 0.3
            offset = 1.0 if "ln_" in name and name.endswith("weight") else 0.0
            p.copy_(offset + scale * torch.randn(p.shape, generator=generator))
        for name, p in model.named_parameters():
            if "token_embedding" in name or "positional_embedding" in name:
                p.mul_(p.shape[-1] ** 0.5)
    return model.eval().requires_grad_(False)


def tokenizer_of(model: nn.Module) -> open_clip.SimpleTokenizer:
    context = getattr(model, "text", model).context_length
    return clip_tokenizer(context)


@pytest.fixture(scope="session")
def family() -> Callable[[str], tuple[nn.Module, open_clip.SimpleTokenizer, bool]]:
    """Name -> (model, tokenizer, whether the fast path covers it)."""
    models: dict[str, tuple[nn.Module, open_clip.SimpleTokenizer, bool]] = {}

    def get(name: str) -> tuple[nn.Module, open_clip.SimpleTokenizer, bool]:
        if name not in models:
            build, fast = FAMILIES[name]
            model = randomise(build())
            models[name] = model, tokenizer_of(model), fast
        return models[name]

    return get


@pytest.fixture(scope="session")
def plain() -> Callable[..., Tensor]:
    """The slow reference: whole strings at the full context."""

    @torch.no_grad()
    def encode(model: nn.Module, tokenizer: Callable, texts: Sequence[str]) -> Tensor:
        return F.normalize(model.encode_text(tokenizer(list(texts))).float(), dim=-1)

    return encode
