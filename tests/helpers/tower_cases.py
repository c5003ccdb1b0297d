"""Small random models of each kind that can be finetuned, and inputs for them."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import open_clip
import torch
from torch import nn
from torch.nn import functional as F

TEXTS = ["a photo of a cat.", "a photo of a red panda, which has claws, ears.", "a photo of an owl, sky."]
CONFIG: dict[str, Any] = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 16, "layers": 3, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 3},
}
FAMILIES = {
    "clip": ({}, {}, False),
    "quickgelu, layer scale": ({"ls_init_value": 0.1}, {"ls_init_value": 0.1}, True),
    "average pooling, text eos": ({"pool_type": "avg"}, {"pool_type": "eos", "eos_id": 49407}, False),
    "attention pooling": ({"attentional_pool": True, "attn_pooler_heads": 2, "attn_pooler_queries": 3}, {}, False),
    "norm last, not causal": ({"final_ln_after_pool": True}, {"no_causal_mask": True, "pool_type": "last"}, False),
    "first token": ({}, {"no_causal_mask": True, "pool_type": "first"}, False),
}  # fmt: skip


def model(family: str = "clip", *, custom: bool = False) -> nn.Module:
    vision, text, quick = FAMILIES[family]
    config = copy.deepcopy(CONFIG)
    config["vision_cfg"].update(vision)
    config["text_cfg"].update(text)
    kind = open_clip.model.CustomTextCLIP if custom else open_clip.model.CLIP
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(**config, quick_gelu=quick).eval()


def pixels() -> torch.Tensor:
    return torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(1))


@cache
def clip_tokenizer(context: int = 77) -> open_clip.SimpleTokenizer:
    """That of all CLIPs, made once: reading its vocabulary takes 0.1 s."""
    return open_clip.SimpleTokenizer(context_length=context)


def tokens() -> torch.Tensor:
    return clip_tokenizer()(TEXTS)


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((actual - expected).abs().max() / expected.abs().max()).detach())


def gradients(features: torch.Tensor, *, net: nn.Module) -> list[torch.Tensor]:
    """Gradients of a loss of normalised features (3, 16), for every weight that it depends on."""
    target = F.normalize(torch.randn(3, 16, generator=torch.Generator().manual_seed(2)), dim=-1)
    loss = (F.normalize(features, dim=-1) * target).sum()
    used = [p for p in net.parameters() if p.requires_grad and p.ndim]
    return [g for g in torch.autograd.grad(loss, used, allow_unused=True) if g is not None]
