"""A user's model and tokenizer: whether they do what encoding needs, in one line if not."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from wsoup.base.errors import ModelError, WsoupError, one_line, shown_value
from wsoup.texts.tokens import Tokenizer
from wsoup.towers.kept import Kept, Same

Output = TypeVar("Output")
PROBES = ("a photo of a cat", "a blurry photo of the hard to see golden retriever, which has a wet nose.")


def check_has(model: object, method: str) -> None:
    """Raise ModelError if a model lacks a method, or its weights."""
    if not callable(getattr(model, method, None)):
        for wrapped in ("module", "model"):
            if callable(getattr(getattr(model, wrapped, None), method, None)):
                raise ModelError(
                    f"model is {type(model).__name__}, which wraps the model that has {method}; pass model.{wrapped}"
                )
        raise ModelError(f"model is {type(model).__name__}, which has no {method}; expected a model like open_clip's")


def check_texts(model: Any, tokenizer: Tokenizer, *, device: torch.device) -> int:
    """D, the size of a text feature; ModelError unless the tokenizer and the model's `encode_text` work."""
    check_has(model, "encode_text")
    tokens = matrix_from("tokenizer", lambda: tokenizer(list(PROBES)), n=len(PROBES))
    if tokens.is_floating_point():
        raise ModelError(f"tokenizer gives {tokens.dtype}; expected whole numbers, (P, context) token ids")
    return matrix_from("model.encode_text", lambda: model.encode_text(tokens.to(device)), n=len(PROBES)).shape[1]


def checked_size(model: Any, tokenizer: Tokenizer, *, device: torch.device, kept: Kept) -> int:
    """`check_texts`, once for a model that has not changed."""
    return kept.once(("size of texts", Same(tokenizer)), partial(check_texts, model, tokenizer, device=device))


@torch.no_grad()
def output_of(name: str, call: Callable[[], Output]) -> Output:
    """The result of calling a part of a model; ModelError if it fails."""
    try:
        return call()
    except (WsoupError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a user's model may raise anything
        reason = f"{type(error).__name__}: {one_line(error, limit=200)}"
        raise ModelError(f"{name} cannot do what this needs ({reason}); repair it, or take another") from error


def matrix_from(name: str, call: Callable[[], object], *, n: int) -> Tensor:
    """`output_of` a call on `n` inputs: (n, x), x at least 1; ModelError if it is anything else."""
    output = output_of(name, call)
    if not isinstance(output, Tensor):
        what = shown_value(output)
    elif output.dim() != 2 or len(output) != n or not output.shape[1] or output.is_complex():
        what = f"a tensor {tuple(output.shape)} of {output.dtype}"
    else:
        return output
    raise ModelError(f"{name} gives {what} for {n}; expected a tensor ({n}, ...), a row for each")


def finite(features: Tensor) -> Tensor:
    """The features (..., D) unchanged; ModelError if any is not finite."""
    if not bool(features.sum().isfinite()):
        step = "choose encoder.precision: fp32, or other weights"
        raise ModelError(f"text features of this model are not finite (NaN or infinity); {step}")
    return features
