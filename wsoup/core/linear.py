"""Linear layers, packed for oneDNN where it multiplies faster than torch's own `mm`."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional as F

PACKED_ROWS = 1024
"""Rows that the packed layout is chosen for; any other number has the same result at nearly the same speed."""


class Linear:
    """x -> act(x W^T + b); `act` is "none", "gelu", "gelu_tanh" or "swish" (SiLU).

    On a CPU, in float32 and bfloat16, weights are packed for oneDNN, with activation and residual sum fused into the
    product; torch's own `mm` may be half as fast on CPUs that are not Intel's. Elsewhere these are torch's own.

    Attributes:
        size: of an output.
        packed: whether the weight is packed.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, *, dtype: torch.dtype) -> None:
        self.size = len(weight)
        self.bias = None if bias is None else bias.detach().to(dtype)
        self.weight = weight.detach().to(dtype).contiguous()
        self.packed = weight.device.type == "cpu" and weight.numel() > 0 and has_onednn(dtype)
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight, PACKED_ROWS)

    def __call__(self, x: Tensor, *, act: str = "none") -> Tensor:
        if self.packed:
            return self._fused(x, act=act)
        y = F.linear(x, self.weight, self.bias)
        if act == "none":
            return y
        if act == "swish":
            return F.silu(y, inplace=True)
        return F.gelu(y, approximate="tanh" if act == "gelu_tanh" else "none")

    def _fused(self, x: Tensor, *, act: str) -> Tensor:
        # oneDNN names GELU by its approximation: "none" or "tanh"; other activations have none.
        name, _, approximation = act.partition("_")
        algorithm = ""
        if name == "gelu":
            algorithm = approximation or "none"
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, name, [], algorithm)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + x W^T + b, in the dtype of the residual."""
        if self.packed and residual.dtype == x.dtype:
            return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.weight, self.bias, "add")
        return residual + self(x)


def has_onednn(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies packed weights of this dtype here; float16, which few CPUs support, is left out."""
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32


@contextmanager
def without_tf32() -> Iterator[None]:
    """Products of float32 on CUDA in float32, whatever this process has set: TF32 would hide near ties of scores."""
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
