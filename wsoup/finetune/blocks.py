"""One open_clip residual attention block in training: passes through it, and what tuners add to it.

A pass computes all rows, one row, or texts sharing a prefix, with gradient. Each equals the block's own `forward` up to
rounding.
"""

import math
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.towers.blocks import split_heads

Block: TypeAlias = Any
"""open_clip's residual attention block."""
START_STD = 0.02
"""Standard deviation of random prompts and updates (MaPLe and the authors' code)."""
LORA_SCALE = 0.2
"""Factor of a low-rank update (the authors' code)."""


def block_pass(block: Block, x: Tensor) -> Tensor:
    """The whole block: (B, T, width) -> (B, T, width)."""
    q, k, v = _heads(block.attn, block.ln_1(x), parts=slice(0, 3))
    attended = _attention(block, q, k, v, mask=None)
    return _feed_forward(block, x + attended)


def first_row_pass(block: Block, x: Tensor) -> Tensor:
    """Only the first row of its output: (B, T, width) -> (B, 1, width)."""
    normed = block.ln_1(x)
    (q,) = _heads(block.attn, normed[:, :1], parts=slice(0, 1))
    k, v = _heads(block.attn, normed, parts=slice(1, 3))
    attended = _attention(block, q, k, v, mask=None)
    return _feed_forward(block, x[:, :1] + attended)


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
        holds_token = torch.arange(length) <= ends[:, None]  # (B, T)
        rows = holds_token.flatten().nonzero()[:, 0]
        last = (ends + 1).cumsum(dim=0) - 1
        self.rows = rows.to(device, non_blocking=True)
        self.last = last.to(device, non_blocking=True)
        self.ends = ends.to(device, non_blocking=True)
        self.shape = holds_token.shape

    def pack(self, x: Tensor) -> Tensor:
        """(B, T, width) -> (N, width)."""
        return x.flatten(0, 1).index_select(0, self.rows)

    def unpack(self, x: Tensor) -> Tensor:
        """(N, width) -> (B, T, width), zero after each text's end, where causal attention never looks."""
        count, length = self.shape
        zeros = x.new_zeros(count * length, x.shape[1])
        flat = zeros.index_copy(0, self.rows, x)
        return flat.view(count, length, -1)


def prefix_pass(block: Block, head: Tensor, tail: Tensor, *, mask: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
    """A causal block over texts that share a prefix: (1, P, width), packed (N, width) -> the same shapes."""
    # A causal prefix sees nothing of what follows it, so it is the same for all texts and computed once.
    q, k, v = _heads(block.attn, block.ln_1(head), parts=slice(0, 3))
    attended_head = _attention(block, q, k, v, mask=None, causal=True)
    new_head = _feed_forward(block, head + attended_head)
    own_q, own_k, own_v = _heads(block.attn, block.ln_1(tail), parts=slice(0, 3), packing=packing)
    keys = _after(k, own_k)
    values = _after(v, own_v)
    attended = _attention(block, own_q, keys, values, mask=mask, packing=packing)
    return new_head, _feed_forward(block, tail + attended)


def prefix_last_row_pass(block: Block, head: Tensor, tail: Tensor, *, mask: Tensor, packing: Packing) -> Tensor:
    """Only the last token of each text: (1, P, width), packed (N, width) -> (B, width)."""
    k, v = _heads(block.attn, block.ln_1(head), parts=slice(1, 3))
    normed = block.ln_1(tail)
    (q,) = _heads(block.attn, normed[packing.last][:, None], parts=slice(0, 1))
    own_k, own_v = _heads(block.attn, normed, parts=slice(1, 3), packing=packing)
    keys = _after(k, own_k)
    values = _after(v, own_v)
    visible = mask[packing.ends][:, None, None]  # (B, 1, 1, P + T)
    attended = _attention(block, q, keys, values, mask=visible)
    return _feed_forward(block, tail[packing.last] + attended[:, 0])


def _heads(attn: nn.MultiheadAttention, normed: Tensor, *, parts: slice, packing: Packing | None = None) -> Tensor:
    """Project (B, T, width), or packed rows, to a slice of q, k, v: (parts, B, heads, T, head size)."""
    width = attn.embed_dim
    rows = slice(parts.start * width, parts.stop * width)
    y = F.linear(normed, attn.in_proj_weight[rows], attn.in_proj_bias[rows])
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
    if packing is not None:
        x = packing.pack(x)
    return block.ls_1(block.attn.out_proj(x))


def _feed_forward(block: Block, x: Tensor) -> Tensor:
    return x + block.ls_2(block.mlp(block.ln_2(x)))


def _after(common: Tensor, own: Tensor) -> Tensor:
    """(1, H, P, d), (B, H, T, d) -> (B, H, P + T, d)."""
    return torch.cat([common.expand(len(own), -1, -1, -1), own], dim=2)


class LowRank(nn.Module):
    """W -> W + scale * (B A) on the query and value rows of a packed (3 width, width) projection; B starts at zero.

    Attributes:
        piled: (2, width, width), sum of earlier updates (`pile_up`), or None if updates do not pile up.
    """

    piled: Tensor | None

    def __init__(self, width: int, *, rank: int, piles_up: bool = False) -> None:
        super().__init__()
        self.down = nn.Parameter(START_STD * torch.randn(2, rank, width))
        self.up = nn.Parameter(torch.zeros(2, width, rank))
        piled = torch.zeros(2, width, width) if piles_up else None
        # It is not in the state dict, because what is stored of a finished training is without it.
        self.register_buffer("piled", piled, persistent=False)

    def forward(self, weight: Tensor) -> Tensor:
        update = LORA_SCALE * (self.up @ self.down)  # (2, width, width)
        if self.piled is not None:
            update = self.piled + update
        query, value = update
        no_key = torch.zeros_like(query)
        return weight + torch.cat([query, no_key, value])

    @torch.no_grad()
    def pile_up(self) -> None:
        """Add the current update for good; called once per pass."""
        if self.piled is not None:
            self.piled += LORA_SCALE * (self.up @ self.down)


class LowRankQkv(nn.Module):
    """W -> W + scale * (B A) on all rows of a packed (3 width, width) projection, as CLIP-LoRA; B starts at zero.

    A starts as the weights of a linear layer do: uniform within 1 / sqrt(width).
    """

    def __init__(self, width: int, *, rank: int, alpha: float) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.down = nn.Parameter(bound * (2 * torch.rand(3, rank, width) - 1))
        self.up = nn.Parameter(torch.zeros(3, width, rank))
        self.scale = alpha / math.sqrt(rank)

    def forward(self, weight: Tensor) -> Tensor:
        update = self.scale * (self.up @ self.down)  # (3, width, width)
        return weight + update.flatten(0, 1)


class ScaleShift(nn.Module):
    """Weight or bias of a layer whose output is scaled and shifted: x -> scale * x by rows, + shift if it is a bias."""

    def __init__(self, scale: nn.Parameter, *, shift: nn.Parameter | None = None) -> None:
        super().__init__()
        self.scale = scale
        self.shift = shift

    def forward(self, x: Tensor) -> Tensor:
        # The rows of a weight (outputs, inputs) are the layer's outputs, as are the entries of a bias.
        scale = self.scale[:, None] if x.ndim == 2 else self.scale
        scaled = x * scale
        if self.shift is None:
            return scaled
        return scaled + self.shift


class Bottleneck(nn.Module):
    """(1 - ratio) * x + ratio * up(relu(down(x))), without biases; with `rectifies`, a relu follows `up`."""

    def __init__(self, width: int, reduction: int, *, ratio: float, rectifies: bool = False) -> None:
        super().__init__()
        narrow = max(1, width // reduction)
        self.down = nn.Linear(width, narrow, bias=False)
        self.up = nn.Linear(narrow, width, bias=False)
        self.ratio = ratio
        self.rectifies = rectifies

    def forward(self, x: Tensor) -> Tensor:
        inner = self.up(F.relu(self.down(x)))
        if self.rectifies:
            inner = F.relu(inner)
        return (1 - self.ratio) * x + self.ratio * inner
