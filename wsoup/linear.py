"""Matrix products laid out for speed, for weights that are used more than once.

On a CPU, in float32 and bfloat16, the weights are packed for oneDNN, and activation and residual sum (where it has the
type of the products) are fused into the product; torch's own `mm` may be half as fast on CPUs that are not Intel's.
Elsewhere these are torch's own layers.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

PACKED_ROWS = 1024
"""Rows that the packed layout is chosen for; any other number gives the same result at nearly the same speed."""


class Linear:
    """x -> act(x W^T + b), with the weights packed once. `act`: "none", "gelu", "gelu_tanh" or "swish" (SiLU)."""

    def __init__(self, weight: Tensor, bias: Tensor | None, *, dtype: torch.dtype) -> None:
        self.bias = None if bias is None else bias.detach().to(dtype)
        self.weight = weight.detach().to(dtype).contiguous()
        self.packed = weight.device.type == "cpu" and weight.numel() > 0 and _has_onednn(dtype)
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


def _has_onednn(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies packed weights of this type here; float16 is left out, which few CPUs have."""
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32
