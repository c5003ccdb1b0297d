"""Which text towers the fast path understands, told from the model itself and not from its name.

A tower qualifies when its mask is causal, its feature is read at the end-of-text token or at a class token behind the
context (CoCa), and each block is open_clip's standard residual attention block. Whatever else there is (two-way
attention as in SigLIP, a Hugging Face tower) does not, and is left to `encode_text`; so are deep prompts, soft
descriptors and adapters of a finetuned model. Where unknown blocks alone stand in the way there is a warning, for a
causal tower ought to be fast.

A `soft_prompt` (n, width) of the model, learned embeddings of tokens 1..n, is understood. This is a first guess only:
`wsoup.texts.PromptEncoder` compares the results before it relies on it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from wsoup.texts.forward import CountedTower, TextTower
from wsoup.texts.packed import activation_name
from wsoup.texts.tokens import ClassToken, last_token

PARTS = ("token_embedding", "positional_embedding", "transformer", "ln_final")
MAYBE = ("text_projection", "cls_emb")


def read_tower(model: nn.Module, *, dtype: torch.dtype | None) -> tuple[TextTower, Callable[[Tensor], Tensor]] | None:
    """The text tower of `model`, and which position of (P, context) tokens it reads; None where it does not qualify."""
    if any(getattr(model, name, None) is not None for name in ("deep_prompts", "soft_descriptors")):
        return None  # a finetuned model whose texts hold more than its tokens and a soft prompt
    inner = getattr(model, "text", None)
    tower = inner if isinstance(inner, nn.Module) else model
    parts: dict[str, Any] = {name: getattr(tower, name, None) for name in (*PARTS, *MAYBE)}
    if any(parts[name] is None for name in PARTS):
        return None
    if parts["cls_emb"] is not None and not hasattr(tower, "correct_cls_mask"):
        return None  # an open_clip with another mask
    class_token = _class_token(tower, parts)
    blocks, reads = getattr(parts["transformer"], "resblocks", ()), end_of_text(tower)
    if class_token is not None:
        reads = last_token(class_token.null)  # it reads all that is not padding
    if not _is_causal(getattr(tower, "attn_mask", None)) or not blocks or reads is None:
        return None
    if any(hasattr(getattr(block, "mlp", None), "adapter") for block in blocks):
        return None  # finetuned, too: `wsoup.finetune.tuners` puts it there
    if foreign := foreign_block(blocks):
        warnings.warn(
            f"the fast text path does not know this causal text tower's {foreign}; texts are encoded the plain way, "
            "which is right but slow",
            stacklevel=3,
        )
        return None
    soft_prompt = getattr(model, "soft_prompt", None)
    kind = CountedTower if parts["token_embedding"].weight.is_meta else TextTower
    return kind(parts, dtype=dtype, soft_prompt=soft_prompt, class_token=class_token), reads


def masked_padding(model: nn.Module) -> int | None:
    """The id of the padding that a two-way text tower masks, and so can do without; None where it may read it."""
    tower = getattr(model, "text", None)
    config = getattr(tower, "config", None)
    if hasattr(tower, "pooler") and hasattr(tower, "transformer") and config is not None:
        return getattr(config, "pad_token_id", None)  # open_clip's HFTextEncoder
    return getattr(tower, "pad_id", None) if getattr(tower, "use_pad_mask", False) else None


def _class_token(tower: nn.Module, parts: dict[str, Any]) -> ClassToken | None:
    if parts["cls_emb"] is None:
        return None
    vocabulary, null = len(parts["token_embedding"].weight), int(getattr(tower, "pad_id", 0))
    return ClassToken(id=vocabulary, null=null, shifted=not getattr(tower, "correct_cls_mask", False))


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
    causal = torch.full_like(mask, float("-inf")).triu_(1)
    return bool(torch.equal(mask, causal))


def foreign_block(blocks: Iterable[nn.Module]) -> str | None:
    """The class of the first block that is not a standard one, and what it is made of; None where all are."""
    for block in blocks:
        if not is_standard_block(block):
            parts = ", ".join(f"{name} {type(part).__name__}" for name, part in block.named_children())
            return f"{type(block).__name__} ({parts})"
    return None


def is_standard_block(block: nn.Module) -> bool:
    """One of open_clip's `ResidualAttentionBlock`s on torch's attention, told by what is in it and not by its name."""
    children = dict(block.named_children())
    attn, mlp = children.get("attn"), children.get("mlp")
    if set(children) != {"ln_1", "attn", "ls_1", "ln_2", "mlp", "ls_2"} or type(attn) is not nn.MultiheadAttention:
        return False
    if attn.in_proj_weight is None or attn.in_proj_bias is None or attn.bias_k is not None or attn.add_zero_attn:
        return False
    if not isinstance(mlp, nn.Sequential) or [name for name, _ in mlp.named_children()] != ["c_fc", "gelu", "c_proj"]:
        return False
    plain = all(type(mlp.get_submodule(name)) is nn.Linear for name in ("c_fc", "c_proj"))
    scales = all(isinstance(children[n], nn.Identity) or hasattr(children[n], "gamma") for n in ("ls_1", "ls_2"))
    return plain and scales and activation_name(mlp.get_submodule("gelu")) is not None
