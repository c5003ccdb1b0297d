"""Linear layers and transformer blocks laid out for speed, for weights that do not change.

On a CPU, in float32 and bfloat16, the weights are packed once for oneDNN, and activation and residual sum (where it has
the type of the products) are fused into the matrix product. Elsewhere these are torch's own layers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

QUICK_GELU = 1.702
"""QuickGELU(x) = x sigmoid(1.702 x) = SiLU(1.702 x) / 1.702; the factor goes into the weights on both sides."""
PACKED_ROWS = 1024
"""Rows that the packed layout is chosen for; any other number gives the same result at nearly the same speed."""


class Linear:
    """x -> act(x W^T + b), with the weights packed once. `act`: "none", "gelu", "gelu_tanh" or "swish" (SiLU)."""

    def __init__(self, weight: Tensor, bias: Tensor | None, *, dtype: torch.dtype) -> None:
        self.bias = None if bias is None else bias.detach().to(dtype)
        self.weight = weight.detach().to(dtype).contiguous()
        self.packed = weight.device.type == "cpu" and _has_onednn(dtype)
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight, PACKED_ROWS)

    def __call__(self, x: Tensor, *, act: str = "none") -> Tensor:
        if self.packed:
            name, _, how = act.partition("_")
            algorithm = (how or "none") if name == "gelu" else ""
            return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, name, [], algorithm)
        y = F.linear(x, self.weight, self.bias)
        if act == "swish":
            return F.silu(y, inplace=True)
        return y if act == "none" else F.gelu(y, approximate="tanh" if act == "gelu_tanh" else "none")

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + x W^T + b, in the type of the residual."""
        if self.packed and residual.dtype == x.dtype:
            return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.weight, self.bias, "add")
        return residual + self(x)


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


def _has_onednn(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies packed weights of this type here; float16 is left out, which few CPUs have."""
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32
