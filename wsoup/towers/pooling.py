"""Where an open_clip tower reads its feature, from the tower's own attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor


def reads_class_token(visual: Any) -> bool:
    """Whether the feature of an open_clip ViT is its class token alone."""
    return visual.attn_pool is None and visual.pool_type == "tok"


def end_of_text(tower: Any) -> Callable[[Tensor], Tensor] | None:
    """Tokens (P, context) -> where a text ends (P,): at the first of the largest id, or of the end id.

    None for a tower that does not read its feature there.
    """
    pool = getattr(tower, "pool_type", None) or getattr(tower, "text_pool_type", None)
    # A text module has plain names; a model that is its own text tower has them with a prefix.
    name = "eos_id" if hasattr(tower, "pool_type") else "text_eos_id"
    end = getattr(tower, name, None)
    if pool == "argmax":
        return lambda tokens: tokens.argmax(dim=-1)
    if pool == "eos" and end is not None:
        return lambda tokens: (tokens == end).int().argmax(dim=-1)  # the first of them
    return None
