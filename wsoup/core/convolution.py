"""Convolutions of an image tower laid out for speed, for weights that no longer change.

On a CPU in float32 the batch norm behind a convolution is folded into its weights, these are packed for oneDNN with
channels last, and activation and residual sum are fused into the product. Which layers follow each other is read from
the tower's own `forward` (`torch.fx`), not from a list of models; what cannot be read is left as it is.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from wsoup.core.linear import has_onednn, with_parts

SUMS = (operator.add, operator.iadd, torch.add)
FEW = 3
"""Convolutions of a tower that is left alone: the patch embedding of a ViT is one."""


def folded(module: nn.Module) -> nn.Module:
    """The same module with its convolutions packed and batch norms folded into them, to be called without gradients.

    Exact to the module up to rounding. It shares all else with the module, which stays as it is; a later change of
    folded weights is not seen. Modules with few convolutions, with hooks, on other devices or of other dtypes, and
    those whose `forward` cannot be read, are left alone.
    """
    if isinstance(module, torch.jit.ScriptModule) or sum(map(_folds, module.modules())) <= FEW:
        return module
    if any(some._forward_hooks or some._forward_pre_hooks for some in module.modules()):
        return module
    try:
        graph = _Tracer(module).trace(module)
    except Exception:  # a forward may do anything; its parts are read on their own then
        return with_parts(module, {name: child and folded(child) for name, child in module._modules.items()})
    return _fused(fx.GraphModule(module, graph))


def _folds(module: nn.Module) -> bool:
    if type(module) is not nn.Conv2d or module.padding_mode != "zeros" or isinstance(module.padding, str):
        return False
    weight = module.weight
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and has_onednn(weight.dtype)


class _Tracer(fx.Tracer):
    """Reads on where convolutions are; what holds none is called as it is."""

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
        self.how = (list(conv.padding), list(conv.stride), list(conv.dilation), conv.groups)
        self.act, self.packed = act, None

    def forward(self, x: Tensor, residual: Tensor | None) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        if self.packed is None:  # the layout is chosen for the first batch's size, and right for any other
            self.packed = torch.ops.mkldnn._reorder_convolution_weight(self.weight, *self.how, list(x.shape))
        call = torch.ops.mkldnn._convolution_pointwise
        if residual is None:
            return call(x, self.packed, self.bias, *self.how, self.act, [], "none" if self.act == "gelu" else "")
        residual = residual.contiguous(memory_format=torch.channels_last)
        act = None if self.act == "none" else self.act
        return call.binary(x, residual, self.packed, self.bias, *self.how, "add", 1.0, act, [], "")


def _fused(tower: fx.GraphModule) -> fx.GraphModule:
    """Each convolution with what follows it alone: batch norm, then a sum, then an activation."""
    modules, graph = dict(tower.named_modules()), tower.graph
    for i, node in enumerate(list(graph.nodes)):
        conv = modules.get(str(node.target)) if node.op == "call_module" else None
        if conv is None or not _folds(conv):
            continue
        chain, norm, residual, act = [node], None, None, "none"
        after = _only_user(node)
        if after is not None and _is_frozen_norm(behind := modules.get(str(after.target))):
            norm = behind
            chain.append(after)
            after = _only_user(after)
        if after is not None and after.target in SUMS and len(after.args) == 2 and not after.kwargs:
            other = after.args[after.args[0] is chain[-1]]
            if isinstance(other, fx.Node) and other is not chain[-1]:
                residual = other
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
