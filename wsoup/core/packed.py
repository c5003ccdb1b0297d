"""Matrix products, attention and convolutions with weights packed for oneDNN: faster inference on a CPU.

Products run in float32 and bfloat16, and activation and residual sum are fused into them; torch's own `mm` may be half
as fast on CPUs that are not Intel's. In convolutions (float32) the batch norm is folded into the weights, too. Which
layers follow a convolution is read from the tower's own `forward` by `torch.fx`, not from a list of models.

Elsewhere, and for layers that cannot be packed, these are torch's own.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_weights

Module = TypeVar("Module", bound=nn.Module)
PACKED_ROWS = 1024
"""Rows that the packed layout is chosen for; any other number has the same result at nearly the same speed."""
SUMS = (operator.add, operator.iadd, torch.add)
FEW = 3
"""A tower with no more convolutions than this is left alone: the patch embedding of a ViT is one."""


class Linear:
    """x -> act(x W^T + b) with packed weights; `act` is "none", "gelu", "gelu_tanh" or "swish" (SiLU)."""

    def __init__(self, weight: Tensor, bias: Tensor | None, *, dtype: torch.dtype) -> None:
        self.bias = None if bias is None else bias.detach().to(dtype)
        self.weight = weight.detach().to(dtype).contiguous()
        self.packed = weight.device.type == "cpu" and weight.numel() > 0 and has_onednn(dtype)
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight, PACKED_ROWS)

    def __call__(self, x: Tensor, *, act: str = "none") -> Tensor:
        if self.packed:
            name, _, approximation = act.partition("_")
            algorithm = (approximation or "none") if name == "gelu" else ""
            return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, name, [], algorithm)
        y = F.linear(x, self.weight, self.bias)
        if act == "swish":
            return F.silu(y, inplace=True)
        return y if act == "none" else F.gelu(y, approximate="tanh" if act == "gelu_tanh" else "none")

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + x W^T + b, in the dtype of the residual."""
        if self.packed and residual.dtype == x.dtype:
            return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.weight, self.bias, "add")
        return residual + self(x)


def packed(module: nn.Module) -> nn.Module:
    """The module with its linear layers and self-attentions packed, for use without gradients.

    Exact up to rounding. It shares parameters, buffers and all else with `module`, which is not changed; packed weights
    take memory of their own and do not follow later changes. Layers of other types, devices or dtypes, or with hooks,
    stay as they are.
    """
    if isinstance(module, torch.jit.ScriptModule):
        return module
    if type(module) is nn.Linear:
        return _PackedLinear.of(module) if _packs(module, module.weight) else module
    if type(module) is nn.MultiheadAttention:
        return _PackedAttention.of(module) if _packs(module, module.in_proj_weight) else module
    return with_parts(module, {name: child and packed(child) for name, child in module._modules.items()})


def folded(module: nn.Module) -> nn.Module:
    """The module with its convolutions packed and batch norms folded into them, for use without gradients.

    Exact up to rounding. It shares all else with `module`, which is not changed; folded weights do not follow later
    changes. Modules with few convolutions, with hooks, or of other devices or dtypes stay as they are. Of a module
    whose `forward` cannot be traced, the parts are folded one by one.
    """
    if isinstance(module, torch.jit.ScriptModule) or sum(map(_folds, module.modules())) <= FEW:
        return module
    if any(part._forward_hooks or part._forward_pre_hooks for part in module.modules()):
        return module
    try:
        graph = _Tracer(module).trace(module)
    except Exception:  # tracing may fail in any way
        return with_parts(module, {name: child and folded(child) for name, child in module._modules.items()})
    return _fused(fx.GraphModule(module, graph))


def has_onednn(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies packed weights of this dtype here; float16, which few CPUs support, is left out."""
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32


def with_parts(module: nn.Module, parts: Mapping[str, nn.Module | None]) -> nn.Module:
    """A copy of the module with some submodules replaced, sharing all else; the module itself if none differs."""
    if all(module._modules[name] is part for name, part in parts.items()):
        return module
    changed = copy.copy(module)
    changed._modules = {**module._modules, **parts}
    return changed


def sharing(cls: type[Module], module: nn.Module) -> Module:
    """An instance of another class that shares everything with the module."""
    instance = cls.__new__(cls)
    instance.__dict__.update(module.__dict__)
    return instance


def _packs(module: nn.Module, weight: Tensor | None) -> bool:
    if weight is None or weight.device.type != "cpu" or weight.dtype != torch.float32:
        return False
    return not (module._forward_hooks or module._forward_pre_hooks) and has_onednn(weight.dtype)


class _PackedLinear(nn.Linear):
    """`nn.Linear` with packed weights, sharing everything else with another one."""

    _product: Linear

    @classmethod
    def of(cls, module: nn.Module) -> _PackedLinear:
        layer = sharing(cls, module)
        layer._product = Linear(layer.weight, layer.bias, dtype=torch.float32)
        return layer

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() or x.dtype != torch.float32 or x.dim() < 2:
            return super().forward(x)
        return self._product(x)


class _PackedAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` with packed weights where keys are values, sharing everything else with another one."""

    _qkv: Linear
    _out: Linear

    @classmethod
    def of(cls, module: nn.Module) -> _PackedAttention:
        layer = sharing(cls, module)
        layer._qkv = Linear(layer.in_proj_weight, layer.in_proj_bias, dtype=torch.float32)
        layer._out = Linear(layer.out_proj.weight, layer.out_proj.bias, dtype=torch.float32)
        return layer

    @cached_property
    def _kv(self) -> Linear:
        """For queries that are not the keys, as in the last block of a ViT."""
        bias = None if self.in_proj_bias is None else self.in_proj_bias[self.embed_dim :]
        return Linear(self.in_proj_weight[self.embed_dim :], bias, dtype=torch.float32)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *args: Any, **options: Any) -> Any:
        special = args or any(option is not None and option is not False for option in options.values())
        inputs = key is value and self.batch_first and query.dim() == 3 and query.dtype == torch.float32
        standard = self.bias_k is None and self.bias_v is None and not self.add_zero_attn and not self.training
        if special or options.get("need_weights", True) or not (inputs and standard) or torch.is_grad_enabled():
            return super().forward(query, key, value, *args, **options)
        if query is key:
            q, k, v = self._qkv(query).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        else:
            bias = None if self.in_proj_bias is None else self.in_proj_bias[: self.embed_dim]
            q = F.linear(query, self.in_proj_weight[: self.embed_dim], bias)
            q = q.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            k, v = self._kv(key).unflatten(-1, (2, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)  # (B, heads, T, head size)
        return self._out(mixed.transpose(1, 2).flatten(2)), None


def _folds(module: nn.Module) -> bool:
    if type(module) is not nn.Conv2d or module.padding_mode != "zeros" or isinstance(module.padding, str):
        return False
    weight = module.weight
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and has_onednn(weight.dtype)


class _Tracer(fx.Tracer):
    """Traces into modules that hold convolutions; all others are leaves."""

    def __init__(self, tower: nn.Module) -> None:
        super().__init__()
        self.inner = {m for m in tower.modules() if not isinstance(m, nn.Conv2d) and any(map(_folds, m.modules()))}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return m not in self.inner


class _PackedConvolution(nn.Module):
    """act(norm(conv(x)) + residual): one call of oneDNN."""

    def __init__(self, conv: nn.Conv2d, norm: Any, *, act: str) -> None:
        super().__init__()
        weight, bias = conv.weight, conv.bias
        if norm is not None:
            weight, bias = fuse_conv_bn_weights(
                weight, bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
            )
        self.weight = weight.detach().contiguous(memory_format=torch.channels_last)
        self.bias = None if bias is None else bias.detach()
        self.geometry = (list(conv.padding), list(conv.stride), list(conv.dilation), conv.groups)
        self.act, self.packed = act, None

    def forward(self, x: Tensor, residual: Tensor | None) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        if self.packed is None:  # the layout suits the first batch's size, and is right for any other
            self.packed = torch.ops.mkldnn._reorder_convolution_weight(self.weight, *self.geometry, list(x.shape))
        call = torch.ops.mkldnn._convolution_pointwise
        if residual is None:
            return call(x, self.packed, self.bias, *self.geometry, self.act, [], "none" if self.act == "gelu" else "")
        residual = residual.contiguous(memory_format=torch.channels_last)
        act = None if self.act == "none" else self.act
        return call.binary(x, residual, self.packed, self.bias, *self.geometry, "add", 1.0, act, [], "")


def _fused(tower: fx.GraphModule) -> fx.GraphModule:
    """Fuse each convolution with what only it leads to: a batch norm, then a sum, then an activation."""
    modules, graph = dict(tower.named_modules()), tower.graph
    for i, node in enumerate(list(graph.nodes)):
        conv = modules.get(str(node.target)) if node.op == "call_module" else None
        if conv is None or not _folds(conv):
            continue
        chain, norm, residual, act = [node], None, None, "none"
        after = _only_user(node)
        if after is not None and _is_frozen_norm(module := modules.get(str(after.target))):
            norm = module
            chain.append(after)
            after = _only_user(after)
        if after is not None and after.target in SUMS and len(after.args) == 2 and not after.kwargs:
            summand = after.args[after.args[0] is chain[-1]]
            if isinstance(summand, fx.Node) and summand is not chain[-1]:
                residual = summand
                chain.append(after)
                after = _only_user(after)
        kind = None if after is None else _activation(modules.get(str(after.target)))
        if after is not None and kind is not None and (residual is None or kind == "relu"):
            act = kind
            chain.append(after)
        tower.add_module(f"convolution_{i}", _PackedConvolution(conv, norm, act=act))
        with graph.inserting_before(chain[-1]):
            fused = graph.call_module(f"convolution_{i}", (node.args[0], residual))
        chain[-1].replace_all_uses_with(fused)
        for replaced in reversed(chain):
            graph.erase_node(replaced)
    graph.lint()
    tower.delete_all_unused_submodules()
    tower.recompile()
    return tower


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _is_frozen_norm(module: nn.Module | None) -> bool:
    return type(module) is nn.BatchNorm2d and not module.training and module.running_mean is not None


def _activation(module: nn.Module | None) -> str | None:
    if type(module) is nn.ReLU:
        return "relu"
    return "gelu" if type(module) is nn.GELU and module.approximate == "none" else None
