"""Passes through one open_clip residual attention block, with gradient: all rows, one row, or texts sharing a prefix.

Each equals the block's own `forward` up to rounding.
"""

from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.towers.blocks import split_heads

Block: TypeAlias = Any
"""open_clip's residual attention block."""


def block_pass(block: Block, x: Tensor, *, mask: Tensor | None) -> Tensor:
    """The whole block: (B, T, width) -> (B, T, width)."""
    q, k, v = _heads(block.attn, block.ln_1(x), parts=slice(0, 3))
    return _feed_forward(block, x + _attention(block, q, k, v, mask=mask))


def first_row_pass(block: Block, x: Tensor) -> Tensor:
    """Only the first row of its output: (B, T, width) -> (B, 1, width)."""
    normed = block.ln_1(x)
    (q,) = _heads(block.attn, normed[:, :1], parts=slice(0, 1))
    k, v = _heads(block.attn, normed, parts=slice(1, 3))
    return _feed_forward(block, x[:, :1] + _attention(block, q, k, v, mask=None))


class Packing:
    """Rows of (B, T) that hold a token, packed for matrix products over texts of different lengths.

    Args:
        ends: (B,) int64 on the CPU, position in T of each text's last token; so that nothing waits for the device.
        length: T.
        device: of the rows.

    Attributes:
        rows: (N,) int64, indices into B * T.
        last: (B,) int64, index into the N rows of the last token of each text.
        ends: (B,) int64, as given, on the device.
    """

    def __init__(self, ends: Tensor, *, length: int, device: torch.device) -> None:
        held = torch.arange(length) <= ends[:, None]  # (B, T)
        indices = held.flatten().nonzero()[:, 0], (ends + 1).cumsum(dim=0) - 1, ends
        self.rows, self.last, self.ends = (index.to(device, non_blocking=True) for index in indices)
        self.shape = held.shape

    def pack(self, x: Tensor) -> Tensor:
        """(B, T, width) -> (N, width)."""
        return x.flatten(0, 1).index_select(0, self.rows)

    def unpack(self, x: Tensor) -> Tensor:
        """(N, width) -> (B, T, width), zero after each text's end, where causal attention never looks."""
        return x.new_zeros(self.shape[0] * self.shape[1], x.shape[1]).index_copy(0, self.rows, x).view(*self.shape, -1)


def prefix_pass(block: Block, head: Tensor, tail: Tensor, *, mask: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
    """A causal block over texts that share a prefix: (1, P, width), packed (N, width) -> the same shapes."""
    q, k, v = _heads(block.attn, block.ln_1(head), parts=slice(0, 3))
    new_head = _feed_forward(block, head + _attention(block, q, k, v, mask=None, causal=True))
    own_q, own_k, own_v = _heads(block.attn, block.ln_1(tail), parts=slice(0, 3), packing=packing)
    keys, values = _after(k, own_k), _after(v, own_v)
    return new_head, _feed_forward(block, tail + _attention(block, own_q, keys, values, mask=mask, packing=packing))


def prefix_last_row_pass(block: Block, head: Tensor, tail: Tensor, *, mask: Tensor, packing: Packing) -> Tensor:
    """Only the last token of each text: (1, P, width), packed (N, width) -> (B, width)."""
    k, v = _heads(block.attn, block.ln_1(head), parts=slice(1, 3))
    normed = block.ln_1(tail)
    (q,) = _heads(block.attn, normed[packing.last][:, None], parts=slice(0, 1))
    own_k, own_v = _heads(block.attn, normed, parts=slice(1, 3), packing=packing)
    visible = mask[packing.ends][:, None, None]
    attended = _attention(block, q, _after(k, own_k), _after(v, own_v), mask=visible)
    return _feed_forward(block, tail[packing.last] + attended[:, 0])


def _heads(attn: nn.MultiheadAttention, normed: Tensor, *, parts: slice, packing: Packing | None = None) -> Tensor:
    """Project (B, T, width), or packed rows, to a slice of q, k, v: (parts, B, heads, T, head size)."""
    width = attn.embed_dim
    rows = slice(parts.start * width, parts.stop * width)
    bias = None if attn.in_proj_bias is None else attn.in_proj_bias[rows]
    y = F.linear(normed, attn.in_proj_weight[rows], bias)
    if packing is not None:
        y = packing.unpack(y)
    return split_heads(y, parts=parts.stop - parts.start, heads=attn.num_heads)


def _attention(
    block: Block,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None,
    causal: bool = False,
    packing: Packing | None = None,
) -> Tensor:
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    n, heads, length, size = mixed.shape
    x = mixed.transpose(1, 2).reshape(n, length, heads * size)
    return block.ls_1(block.attn.out_proj(x if packing is None else packing.pack(x)))


def _feed_forward(block: Block, x: Tensor) -> Tensor:
    return x + block.ls_2(block.mlp(block.ln_2(x)))


def _after(common: Tensor, own: Tensor) -> Tensor:
    """(1, H, P, d), (B, H, T, d) -> (B, H, P + T, d)."""
    return torch.cat([common.expand(len(own), -1, -1, -1), own], dim=2)
