"""What a model can do: whether its texts can be encoded at all, and whether the fast path covers its text tower.

The fast path covers a tower whose mask is causal, whose feature is read at the end-of-text token or at a class token
after the context (CoCa), and whose blocks are all open_clip's standard residual attention blocks. This is read from the
model itself, not from its name. All others go through `encode_text`: two-way attention (SigLIP), Hugging Face towers,
and the deep prompts, soft descriptors and adapters of a finetuned model. There is a warning where only unknown blocks
stand in the way, since a causal tower ought to be fast.

A model's `soft_prompt` (n, width), learned embeddings of tokens 1..n, is covered. All this is a first guess, which
`wsoup.texts.encoder.PromptEncoder` verifies on a few texts before it relies on it.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from wsoup.base.errors import ModelError, WsoupError, one_line, shown_value
from wsoup.texts.tokens import ClassToken, Tokenizer, last_token
from wsoup.texts.tower import TextTower
from wsoup.towers.blocks import foreign_block

PROBES = ("a photo of a cat", "a photo of a dog, which has a wet nose.")


def check_has(model: object, method: str) -> None:
    """Raise ModelError if a model lacks a method."""
    if not callable(getattr(model, method, None)):
        raise ModelError(f"model is {type(model).__name__}, which has no {method}; expected a model like open_clip's")


def check_texts(model: Any, tokenizer: Tokenizer, *, device: torch.device) -> None:
    """Raise ModelError unless the tokenizer and the model's `encode_text` work on two texts."""
    check_has(model, "encode_text")
    tokens = matrix_from("tokenizer", lambda: tokenizer(list(PROBES)), n=len(PROBES))
    if tokens.is_floating_point():
        raise ModelError(f"tokenizer gives {tokens.dtype}; expected whole numbers, (P, context) token ids")
    matrix_from("model.encode_text", lambda: model.encode_text(tokens.to(device)), n=len(PROBES))


@torch.no_grad()
def output_of(name: str, call: Callable[[], Any]) -> Any:
    """The result of calling a part of a model; ModelError if it fails."""
    try:
        return call()
    except (WsoupError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a user's model may raise anything
        reason = f"{type(error).__name__}: {one_line(error, limit=200)}"
        raise ModelError(f"{name} cannot do what this needs ({reason}); repair it, or take another") from error


def matrix_from(name: str, call: Callable[[], Any], *, n: int) -> Tensor:
    """`output_of` a call on `n` inputs: (n, x), x at least 1; ModelError if it is anything else."""
    output = output_of(name, call)
    tensor = isinstance(output, Tensor)
    if not tensor or output.dim() != 2 or len(output) != n or not output.shape[1] or output.is_complex():
        what = f"a tensor {tuple(output.shape)} of {output.dtype}" if tensor else shown_value(output)
        raise ModelError(f"{name} gives {what} for {n}; expected a tensor ({n}, ...), a row for each")
    return output


def finite(features: Tensor) -> Tensor:
    """The features (..., D) unchanged; ModelError if any is not finite."""
    if not bool(features.sum().isfinite()):
        raise ModelError(
            "text features of this model are not finite (NaN or infinity); choose encoder.precision: fp32, or other "
            "weights"
        )
    return features


def read_tower(model: nn.Module, *, dtype: torch.dtype | None) -> tuple[TextTower, Callable[[Tensor], Tensor]] | None:
    """The text tower of `model`, and which position of (P, context) tokens it reads; None if it is not covered."""
    if any(getattr(model, name, None) is not None for name in ("deep_prompts", "soft_descriptors")):
        return None  # a finetuned model whose texts hold more than their tokens and a soft prompt
    tower: Any = model.text if isinstance(getattr(model, "text", None), nn.Module) else model
    parts = ("token_embedding", "positional_embedding", "transformer", "ln_final")
    if any(getattr(tower, name, None) is None for name in parts):
        return None
    class_token, reads = None, end_of_text(tower)
    if getattr(tower, "cls_emb", None) is not None:
        if not hasattr(tower, "correct_cls_mask"):
            return None  # a version of open_clip with another mask
        null, shifted = int(getattr(tower, "pad_id", 0)), not tower.correct_cls_mask
        class_token = ClassToken(id=len(tower.token_embedding.weight), null=null, shifted=shifted)
        reads = last_token(null)  # it reads all that is not padding
    blocks = getattr(tower.transformer, "resblocks", ())
    if not _is_causal(getattr(tower, "attn_mask", None)) or not blocks or reads is None:
        return None
    if any(hasattr(getattr(block, "mlp", None), "adapter") for block in blocks):
        return None  # finetuned by `wsoup.finetune.tuners`
    if foreign := foreign_block(blocks):
        warnings.warn(
            f"the fast text path does not know this causal text tower's {foreign}; texts are encoded the plain way, "
            "which is right but slow",
            stacklevel=3,
        )
        return None
    soft_prompt = getattr(model, "soft_prompt", None)
    return TextTower(tower, dtype=dtype, soft_prompt=soft_prompt, class_token=class_token), reads


def masked_padding(model: nn.Module) -> int | None:
    """The id of padding if a two-way text tower masks it, so that it can be cut; None if the tower may read it."""
    tower = getattr(model, "text", None)
    config = getattr(tower, "config", None)
    if hasattr(tower, "pooler") and hasattr(tower, "transformer") and config is not None:
        return getattr(config, "pad_token_id", None)  # open_clip's HFTextEncoder
    return getattr(tower, "pad_id", None) if getattr(tower, "use_pad_mask", False) else None


def end_of_text(tower: Any) -> Callable[[Tensor], Tensor] | None:
    """Tokens (P, context) -> where a text ends (P,): at the first of the largest id, or of the end id.

    None for a tower that does not read its feature there.
    """
    pool = getattr(tower, "pool_type", None) or getattr(tower, "text_pool_type", None)
    end = getattr(tower, "eos_id", None) if hasattr(tower, "pool_type") else getattr(tower, "text_eos_id", None)
    if pool == "argmax":
        return lambda tokens: tokens.argmax(dim=-1)
    if pool == "eos" and end is not None:
        return lambda tokens: (tokens == end).int().argmax(dim=-1)
    return None


def _is_causal(mask: object) -> bool:
    if not isinstance(mask, Tensor) or mask.ndim != 2:
        return False
    if mask.is_meta:
        return True  # it has no values; open_clip's text towers have a causal mask or none
    return torch.equal(mask, torch.full_like(mask, float("-inf")).triu_(1))
