"""Passes through one open_clip block, with gradient: all of it, one row of it, or over texts that begin alike.

Exact to the block's own `forward` up to rounding. Prompts are (depth, n, width): the first n embeddings after the start
token are replaced (text; section 3 of CoOp, arXiv 2109.01134) or joined by (images; VPT, arXiv 2203.12119) the first of
them, and the same positions are replaced again before block i < depth by the i-th (deep prompts; MaPLe, arXiv
2210.03117).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from wsoup.texts.forward import split_heads


def _heads(attn: nn.MultiheadAttention, normed: Tensor, *, parts: slice, places: Places | None = None) -> Tensor:
    """Project (B, T, width), or packed rows, to some of q, k, v: (parts, B, heads, T, head size)."""
    width = attn.embed_dim
    rows = slice(parts.start * width, parts.stop * width)
    bias = None if attn.in_proj_bias is None else attn.in_proj_bias[rows]
    y = F.linear(normed, attn.in_proj_weight[rows], bias)
    if places is not None:
        y = places.spread(y)
    return split_heads(y, parts=parts.stop - parts.start, heads=attn.num_heads)


def _attention(
    block: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None,
    causal: bool = False,
    places: Places | None = None,
) -> Tensor:
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    n, heads, length, size = mixed.shape
    x = mixed.transpose(1, 2).reshape(n, length, heads * size)
    return block.ls_1(block.attn.out_proj(x if places is None else places.pack(x)))


def _feed_forward(block: Any, x: Tensor) -> Tensor:
    return x + block.ls_2(block.mlp(block.ln_2(x)))


def whole_pass(block: Any, x: Tensor, *, mask: Tensor | None) -> Tensor:
    """One residual attention block: (B, T, width) -> the same."""
    q, k, v = _heads(block.attn, block.ln_1(x), parts=slice(0, 3))
    return _feed_forward(block, x + _attention(block, q, k, v, mask=mask))


def row_pass(block: Any, x: Tensor) -> Tensor:
    """The same block, but only its first row comes out: (B, T, width) -> (B, 1, width)."""
    normed = block.ln_1(x)
    (q,) = _heads(block.attn, normed[:, :1], parts=slice(0, 1))
    k, v = _heads(block.attn, normed, parts=slice(1, 3))
    return _feed_forward(block, x[:, :1] + _attention(block, q, k, v, mask=None))


def shared_pass(block: Any, head: Tensor, tail: Tensor, *, mask: Tensor, places: Places) -> tuple[Tensor, Tensor]:
    """A causal block over texts with a common beginning: (1, P, width), packed (N, width) -> the same two."""
    q, k, v = _heads(block.attn, block.ln_1(head), parts=slice(0, 3))
    new_head = _feed_forward(block, head + _attention(block, q, k, v, mask=None, causal=True))
    own_q, own_k, own_v = _heads(block.attn, block.ln_1(tail), parts=slice(0, 3), places=places)
    keys, values = _after(k, own_k), _after(v, own_v)
    return new_head, _feed_forward(block, tail + _attention(block, own_q, keys, values, mask=mask, places=places))


def shared_row_pass(block: Any, head: Tensor, tail: Tensor, *, mask: Tensor, places: Places) -> Tensor:
    """The last block of texts with a common beginning, only at their ends: (B, width)."""
    k, v = _heads(block.attn, block.ln_1(head), parts=slice(1, 3))
    normed = block.ln_1(tail)
    (q,) = _heads(block.attn, normed[places.last][:, None], parts=slice(0, 1))
    own_k, own_v = _heads(block.attn, normed, parts=slice(1, 3), places=places)
    seen = mask[places.ends][:, None, None]
    attended = _attention(block, q, _after(k, own_k), _after(v, own_v), mask=seen)
    return _feed_forward(block, tail[places.last] + attended[:, 0])


def _after(common: Tensor, own: Tensor) -> Tensor:
    """(1, H, P, d), (B, H, T, d) -> (B, H, P + T, d)."""
    return torch.cat([common.expand(len(own), -1, -1, -1), own], dim=2)


class Places:
    """Which places of (B, T) hold a token: rows of texts of different lengths are packed for the matrix products.

    Attributes:
        rows: (N,) int64, the places that do, of B * T.
        last: (B,) int64, which of the N each text ends in.
        ends: (B,) int64, position of each end in T.
    """

    def __init__(self, ends: Tensor, *, length: int) -> None:
        held = torch.arange(length, device=ends.device) <= ends[:, None]  # (B, T)
        self.rows = held.flatten().nonzero()[:, 0]
        self.last, self.ends, self.shape = (ends + 1).cumsum(dim=0) - 1, ends, held.shape

    def pack(self, x: Tensor) -> Tensor:
        """(B, T, width) -> (N, width)."""
        return x.flatten(0, 1).index_select(0, self.rows)

    def spread(self, x: Tensor) -> Tensor:
        """(N, width) -> (B, T, width), zero where no token is; nothing looks there, for attention is causal."""
        return x.new_zeros(self.shape[0] * self.shape[1], x.shape[1]).index_copy(0, self.rows, x).view(*self.shape, -1)


def project(x: Tensor, projection: nn.Linear | Tensor | None) -> Tensor:
    """The last matrix product of a tower, where it has one: (B, width) -> (B, D)."""
    if projection is None:
        return x
    return projection(x) if isinstance(projection, nn.Linear) else x @ projection


def call(function: Any, *arguments: Any, save_memory: bool, **options: Any) -> Any:
    """The function's result; with `save_memory` its activations are computed again in the backward pass."""
    if save_memory and torch.is_grad_enabled():
        return checkpoint(function, *arguments, use_reentrant=False, **options)
    return function(*arguments, **options)


def with_deep_prompt(x: Tensor, prompts: Tensor | None, *, block: int) -> Tensor:
    """Replace positions 1..n of (B, T, width) before a block that has a deep prompt; the first block has none."""
    if prompts is None or not 0 < block < len(prompts):
        return x
    return laid_over(x, prompts[block])


def laid_over(x: Tensor, prompt: Tensor) -> Tensor:
    """Positions 1..n of (B, T, width) replaced by (n, width)."""
    return torch.cat([x[:, :1], prompt.to(x.dtype).expand(len(x), -1, -1), x[:, 1 + len(prompt) :]], dim=1)
