"""Matrix products laid out for speed, for weights that are used more than once.

On a CPU, in float32 and bfloat16, the weights are packed for oneDNN, and activation and residual sum (where it has the
type of the products) are fused into the product; torch's own `mm` may be half as fast on CPUs that are not Intel's.
Elsewhere these are torch's own layers.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Module = TypeVar("Module", bound=nn.Module)
PACKED_ROWS = 1024
"""Rows that the packed layout is chosen for; any other number gives the same result at nearly the same speed."""


class Linear:
    """x -> act(x W^T + b), with the weights packed once. `act`: "none", "gelu", "gelu_tanh" or "swish" (SiLU)."""

    def __init__(self, weight: Tensor, bias: Tensor | None, *, dtype: torch.dtype) -> None:
        self.bias = None if bias is None else bias.detach().to(dtype)
        self.weight = weight.detach().to(dtype).contiguous()
        self.packed = weight.device.type == "cpu" and weight.numel() > 0 and has_onednn(dtype)
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


def packed(module: nn.Module) -> nn.Module:
    """The same module with its linear layers and self-attentions packed, to be called without gradients.

    Exact to the module up to rounding. It shares parameters, buffers and all else with the module, which stays as it
    is; a later change of packed weights is not seen. Takes the memory of those weights once more. Layers of other
    types, on other devices, of other dtypes, or with hooks are left alone.
    """
    if isinstance(module, torch.jit.ScriptModule):
        return module
    if type(module) is nn.Linear:
        return _PackedLinear.of(module) if _packs(module, module.weight) else module
    if type(module) is nn.MultiheadAttention:
        return _PackedAttention.of(module) if _packs(module, module.in_proj_weight) else module
    return with_parts(module, {name: child and packed(child) for name, child in module._modules.items()})


def with_parts(module: nn.Module, parts: Mapping[str, nn.Module | None]) -> nn.Module:
    """The same module with other modules at some names, which shares all else with it; itself where none is another."""
    if all(module._modules[name] is part for name, part in parts.items()):
        return module
    made = copy.copy(module)
    made._modules = {**module._modules, **parts}
    return made


def sharing(cls: type[Module], module: nn.Module) -> Module:
    """A module of another class that shares everything with this one."""
    made = cls.__new__(cls)
    made.__dict__.update(module.__dict__)
    return made


def _packs(module: nn.Module, weight: Tensor | None) -> bool:
    if weight is None or weight.device.type != "cpu" or weight.dtype != torch.float32:
        return False
    return not (module._forward_hooks or module._forward_pre_hooks) and has_onednn(weight.dtype)


class _PackedLinear(nn.Linear):
    """`nn.Linear` that shares everything with another one, its weights packed."""

    _product: Linear

    @classmethod
    def of(cls, module: nn.Module) -> _PackedLinear:
        made = sharing(cls, module)
        made._product = Linear(made.weight, made.bias, dtype=made.weight.dtype)
        return made

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() or x.dtype != torch.float32 or x.dim() < 2:
            return super().forward(x)
        return self._product(x)


class _PackedAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` that shares everything with another one, its weights packed where keys are values."""

    _qkv: Linear
    _out: Linear

    @classmethod
    def of(cls, module: nn.Module) -> _PackedAttention:
        made = sharing(cls, module)
        made._qkv = Linear(made.in_proj_weight, made.in_proj_bias, dtype=torch.float32)
        made._out = Linear(made.out_proj.weight, made.out_proj.bias, dtype=torch.float32)
        return made

    @cached_property
    def _kv(self) -> Linear:
        """For a query of other rows, as the last block of a ViT has."""
        bias = None if self.in_proj_bias is None else self.in_proj_bias[self.embed_dim :]
        return Linear(self.in_proj_weight[self.embed_dim :], bias, dtype=torch.float32)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **options: Any) -> Any:
        asked = {name for name, option in options.items() if option is not None and option is not False}
        own = key is value and self.batch_first and query.dim() == 3 and query.dtype == torch.float32
        whole = self.bias_k is None and self.bias_v is None and not self.add_zero_attn and not self.training
        if rest or asked or options.get("need_weights", True) or not (own and whole) or torch.is_grad_enabled():
            return super().forward(query, key, value, *rest, **options)
        if query is key:
            q, k, v = self._qkv(query).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        else:
            bias = None if self.in_proj_bias is None else self.in_proj_bias[: self.embed_dim]
            of_query = F.linear(query, self.in_proj_weight[: self.embed_dim], bias)
            q = of_query.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            k, v = self._kv(key).unflatten(-1, (2, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)  # (B, heads, T, head size)
        return self._out(mixed.transpose(1, 2).flatten(2)), None


def has_onednn(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies packed weights of this type here; float16 is left out, which few CPUs have."""
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32
