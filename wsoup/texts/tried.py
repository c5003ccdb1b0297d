"""A model and its tokenizer, tried with two texts before any work: what cannot be used is one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from wsoup.core.errors import ModelError, WsoupError, one_line, shown_value

TEXTS = ("a photo of a cat", "a photo of a dog, which has a wet nose.")


def check_has(model: Any, method: str) -> None:
    """Raise ModelError where a model lacks a method."""
    if not callable(getattr(model, method, None)):
        raise ModelError(
            f"model is {type(model).__name__}, which has no {method}; expected an open_clip model or the like"
        )


def check_texts(model: Any, tokenizer: Any, *, device: torch.device) -> None:
    """Raise ModelError where a model has no `encode_text`, or it or its tokenizer does not do with two texts."""
    check_has(model, "encode_text")
    tokens = answered("tokenizer", lambda: tokenizer(list(TEXTS)), n=len(TEXTS))
    if tokens.is_floating_point():
        raise ModelError(f"tokenizer gives {tokens.dtype}; expected whole numbers, (P, context) token ids")
    answered("model.encode_text", lambda: model.encode_text(tokens.to(device)), n=len(TEXTS))


@torch.no_grad()
def tried(name: str, call: Callable[[], Any]) -> Any:
    """What a part of a model makes of something; ModelError where it fails."""
    try:
        return call()
    except (WsoupError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # whatever somebody's model raises
        reason = f"{type(error).__name__}: {one_line(error, limit=200)}"
        raise ModelError(f"{name} cannot do what this needs ({reason}); repair it, or take another") from error


def answered(name: str, call: Callable[[], Any], *, n: int) -> Tensor:
    """What it makes of `n` inputs, (n, x) with x from 1; ModelError where that is something else."""
    made = tried(name, call)
    if not isinstance(made, Tensor) or made.dim() != 2 or len(made) != n or not made.shape[1] or made.is_complex():
        what = f"a tensor {tuple(made.shape)} of {made.dtype}" if isinstance(made, Tensor) else shown_value(made)
        raise ModelError(f"{name} gives {what} for {n}; expected a tensor ({n}, ...), a row for each")
    return made


def finite(features: Tensor) -> Tensor:
    """The features (..., D) themselves; their sum is not finite where one of them is not. Those without values pass."""
    if not features.is_meta and not bool(features.sum().isfinite()):
        raise ModelError(
            "text features of this model are not finite (NaN or infinity); choose encoder.precision: fp32, or other "
            "weights"
        )
    return features
