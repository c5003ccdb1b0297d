"""The identity of a loaded model, stored in every artifact: names, and digests of its structure and weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

PROBES = ("a photo of a Cat, which has WHITE paws.", "an origami pine tree; 12 of them", "")
"""Texts whose tokens distinguish tokenizers."""
NOT_SETTINGS = {"training", "name_or_path", "image_mean", "image_std"}
"""Attributes of modules that do not affect features: mode, origin, preprocessing."""


def encoder_id(
    model: nn.Module,
    *,
    tokenizer: Callable[[Sequence[str]], Tensor],
    model_name: str,
    pretrained: str | None,
    precision: str,
    weights: str | None = None,
) -> dict[str, Any]:
    """The id stored in artifacts: names to load it by, and digests of what was loaded; JSON values.

    A name says little: a tag or a ``hf-hub:`` repository may get new weights, and different `heads` in a local config
    fit the same weights but give other features. So both digests are computed after loading, whatever the source;
    `weights` is the digest of the weights where it is known.
    """
    # The modules that were built decide, not the name: a config may ask for QuickGELU without saying so in its name.
    quick_gelu = any(type(module).__name__ == "QuickGELU" for module in model.modules())
    return {
        "model": model_name,
        "pretrained": pretrained,
        "config": config_digest(model, tokenizer=tokenizer),
        "weights": weights or weights_digest(model),
        "quick_gelu": quick_gelu,
        "precision": precision,
    }


def config_digest(model: nn.Module, *, tokenizer: Callable[[Sequence[str]], Tensor]) -> str:
    """Sixteen hex digits for everything but the weights that determines a model's features.

    That is, each module's name, type, plain public attributes (heads, pooling, end-of-text id, ...) and shapes of its
    buffers (a causal mask or none), and the tokens of a few texts.
    """
    modules = []
    for name, module in model.named_modules():
        buffers = sorted(module.named_buffers(recurse=False))
        shapes = [[buffer_name, list(buffer.shape)] for buffer_name, buffer in buffers]
        modules.append([name, type(module).__name__, _settings(module), shapes])
    probes = tokenizer(list(PROBES))
    facts = [modules, probes.tolist()]
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def weights_digest(model: nn.Module) -> str:
    """SHA-256 of the state dict in hex: names, dtypes, shapes and bytes of all tensors, sorted by name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        on_cpu = tensor.detach().cpu().contiguous()
        # As bytes, because NumPy has no bfloat16.
        data = on_cpu.flatten().view(torch.uint8)
        digest.update(memoryview(data.numpy()))
    return digest.hexdigest()


def _settings(module: nn.Module) -> dict[str, object]:
    settings = {}
    for name, value in vars(module).items():
        is_public = not name.startswith("_")
        if is_public and name not in NOT_SETTINGS and _is_plain(value):
            settings[name] = value
    return settings


def _is_plain(value: object) -> bool:
    """Whether a value is a JSON value or a tuple of such values."""
    if isinstance(value, (tuple, list)):
        return all(_is_plain(part) for part in value)
    return value is None or isinstance(value, (bool, int, float, str))
