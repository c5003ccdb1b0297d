"""Which text towers the fast path covers.

It covers a tower whose mask is causal, whose feature is read at the end-of-text token or at a class token after the
context (CoCa), and whose blocks are all open_clip's standard residual attention blocks. This is read from the model
itself, not from its name. All others take the plain path (`wsoup.texts.plain`): two-way attention (SigLIP), Hugging
Face towers, and the deep prompts, soft descriptors and adapters of a finetuned model. There is a warning where only
unknown blocks stand in the way, since a causal tower ought to be fast.

A model's `soft_prompt` (n, width), learned embeddings of tokens 1..n, is covered. All this is a first guess, which
`wsoup.texts.encoder.PromptEncoder` verifies on a few texts before it relies on it.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from wsoup.texts.tokens import ClassToken, last_token
from wsoup.texts.tower import TextTower
from wsoup.towers.blocks import foreign_block
from wsoup.towers.pooling import end_of_text


def read_tower(model: nn.Module, *, dtype: torch.dtype | None) -> tuple[TextTower, Callable[[Tensor], Tensor]] | None:
    """The text tower of `model`, and which position of (P, context) tokens it reads; None if it is not covered."""
    if any(getattr(model, name, None) is not None for name in ("deep_prompts", "soft_descriptors")):
        return None  # a finetuned model whose texts hold more than their tokens and a soft prompt
    tower: Any = model.text if isinstance(getattr(model, "text", None), nn.Module) else model
    parts = ("token_embedding", "positional_embedding", "transformer", "ln_final")
    if any(getattr(tower, name, None) is None for name in parts):
        return None
    reads = end_of_text(tower)
    class_token = None
    if getattr(tower, "cls_emb", None) is not None:
        if getattr(tower, "correct_cls_mask", True):
            return None  # another mask than that of all published weights (`ClassToken`)
        class_token = ClassToken(id=len(tower.token_embedding.weight), null=int(getattr(tower, "pad_id", 0)))
        reads = last_token(class_token.null)  # it reads all that is not padding
    blocks = getattr(tower.transformer, "resblocks", ())
    if not _is_causal(getattr(tower, "attn_mask", None)) or not blocks or reads is None:
        return None
    if any(hasattr(getattr(block, "mlp", None), "adapter") for block in blocks):
        return None  # finetuned by `wsoup.finetune.tuners`
    foreign = foreign_block(blocks)
    if foreign:
        problem = f"the fast text path does not know this causal text tower's {foreign}"
        warnings.warn(f"{problem}; texts are encoded the plain way, which is right but slow", stacklevel=3)
        return None
    soft_prompt = getattr(model, "soft_prompt", None)
    return TextTower(tower, dtype=dtype, soft_prompt=soft_prompt, class_token=class_token), reads


def _is_causal(mask: object) -> bool:
    if not isinstance(mask, Tensor) or mask.ndim != 2:
        return False
    # A mask on the meta device has no values. It is taken for causal: open_clip's text towers have such a mask or none.
    return mask.is_meta or torch.equal(mask, torch.full_like(mask, float("-inf")).triu_(1))
