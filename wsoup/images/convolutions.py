"""Convolutional image towers whose batch norms are part of their convolutions: fewer passes over the same channels.

In evaluation a batch norm scales and shifts each channel by constants, which a convolution before it can do by itself.
On a CPU the channels then lie innermost (`torch.channels_last`), as its convolutions want them.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval


def has_norms(visual: object) -> TypeGuard[nn.Module]:
    """Whether an image tower has batch norms with constants, and no hook, which would expect its own calls."""
    if not isinstance(visual, nn.Module) or not getattr(visual, "image_size", None):
        return False
    parts = list(visual.modules())
    if any(part._forward_hooks or part._forward_pre_hooks for part in parts):
        return False
    return any(_is_constant(part) for part in parts)


@torch.no_grad()
def with_folded_norms(visual: nn.Module, *, images: Tensor) -> nn.Module:
    """A copy of an image tower in which each batch norm that reads a convolution alone is part of it.

    Args:
        visual: a tower that `has_norms`, in evaluation.
        images: (B, 3, H, W) that it can encode, to see what reads what; their values do not matter.
    """
    pairs = _pairs(visual, images=images)
    folded = copy.deepcopy(visual)
    for convolution, norm in pairs:
        read, own = folded.get_submodule(convolution), folded.get_submodule(norm)
        dtype = next(read.parameters()).dtype
        # In float64, so that weights are rounded once: features are then as far from exact ones as the tower's own.
        fused = fuse_conv_bn_eval(read.double(), own.double())  # type: ignore[type-var, arg-type]
        folded.set_submodule(convolution, fused.to(dtype))
        folded.set_submodule(norm, _rest_of(own))
    if images.device.type == "cpu":
        folded = folded.to(memory_format=torch.channels_last)
    return folded


def _pairs(visual: nn.Module, *, images: Tensor) -> list[tuple[str, str]]:
    """Names of the convolutions and batch norms of which the second reads what the first gives, seen in one pass."""
    given: dict[str, list[Tensor]] = {}
    read: dict[str, list[Tensor]] = {}
    hooks = []
    for name, part in visual.named_modules():
        if type(part) is nn.Conv2d:
            given[name] = []
            hooks.append(part.register_forward_hook(partial(_note_output, given[name])))
        elif _is_constant(part):
            read[name] = []
            hooks.append(part.register_forward_pre_hook(partial(_note_input, read[name])))
    try:
        visual(images)
    finally:
        for hook in hooks:
            hook.remove()
    # What is called twice may be read by two others. All tensors are still held, so none has the id of another.
    givers = {id(tensors[0]): name for name, tensors in given.items() if len(tensors) == 1}
    pairs = []
    for norm, tensors in read.items():
        if len(tensors) == 1 and id(tensors[0]) in givers:
            pairs.append((givers[id(tensors[0])], norm))
    return pairs


def _note_output(kept: list[Tensor], part: nn.Module, args: object, output: Tensor) -> None:
    kept.append(output)


def _note_input(kept: list[Tensor], part: nn.Module, args: tuple[Tensor, ...]) -> None:
    kept.append(args[0])


def _is_constant(part: nn.Module) -> bool:
    """Whether a module is a batch norm of images with the constants of training."""
    return isinstance(part, nn.BatchNorm2d) and not part.training and part.running_mean is not None


def _rest_of(norm: Any) -> nn.Module:
    """What a batch norm does besides scaling: timm's also have an activation."""
    if type(norm) is nn.BatchNorm2d:
        return nn.Identity()
    return nn.Sequential(norm.drop, norm.act)
