"""Transformer blocks laid out for speed, for weights that do not change; see `wsoup.core.linear`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from wsoup.core.linear import Linear

QUICK_GELU = 1.702
"""QuickGELU(x) = x sigmoid(1.702 x) = SiLU(1.702 x) / 1.702; the factor goes into the weights on both sides."""


class Block:
    """One residual attention block with packed weights; LayerScale is folded into the projections."""

    def __init__(self, block: Any, *, dtype: torch.dtype, last: bool) -> None:
        attn, mlp = block.attn, block.mlp
        weight, bias, width = attn.in_proj_weight, attn.in_proj_bias, attn.embed_dim
        self.ln_1, self.ln_2 = block.ln_1, block.ln_2
        if last:
            self.q = Linear(weight[:width], bias[:width], dtype=dtype)
            self.kv = Linear(weight[width:], bias[width:], dtype=dtype)
        else:
            self.qkv = Linear(weight, bias, dtype=dtype)
        self.act = activation_name(mlp.gelu) or "none"
        stretch = QUICK_GELU if self.act == "swish" else 1.0
        self.fc = Linear(mlp.c_fc.weight * stretch, mlp.c_fc.bias * stretch, dtype=dtype)
        gamma_1, gamma_2 = (getattr(scale, "gamma", weight.new_ones(1)) for scale in (block.ls_1, block.ls_2))
        self.out = Linear(attn.out_proj.weight * gamma_1[:, None], attn.out_proj.bias * gamma_1, dtype=dtype)
        self.proj = Linear(mlp.c_proj.weight * (gamma_2 / stretch)[:, None], mlp.c_proj.bias * gamma_2, dtype=dtype)


def activation_name(module: nn.Module) -> str | None:
    """The fused name of an activation module, or None where there is none."""
    if isinstance(module, nn.GELU):
        return "gelu_tanh" if module.approximate == "tanh" else "gelu"
    return "swish" if type(module).__name__ == "QuickGELU" else None
