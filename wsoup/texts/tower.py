"""The forward pass of a causal text tower with a key-value cache.

Follows the blocks of open_clip's `TextTransformer` (pre-norm, LayerScale if any, GELU or QuickGELU, final norm and
projection of the end-of-text token) and is exact to them up to rounding. It saves work in three places:

* nothing after the end-of-text token is computed, and nothing whose keys and values are given as `past`;
* in the first block, queries, keys and values depend on token and position alone, so texts that differ only in what
  came before share them;
* in the last block, only the positions that are read need more than keys and values.

On a CPU, masked attention over a few dozen keys is faster as two batched products than as the flash kernel. Adding the
mask and softmax are in float32 whatever the precision of the products.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.core.linear import Linear
from wsoup.texts.tokens import ClassToken
from wsoup.towers.blocks import PackedBlock, split_heads


class TextTower:
    """A causal text tower with packed weights.

    Args:
        tower: the model, or its `text` module, with open_clip's names.
        dtype: of the matrix products; None for the model's own.
        soft_prompt: (n, width) learned embeddings of tokens 1..n of every text, or None.
        class_token: CoCa's class token, at the last position, or None.

    Attributes:
        context: most tokens in a text.
        size: D, features per text.
        block_flops: multiplications and additions in the matrix products of a block, per token.
        n_tokens: computed so far; padding and repetitions in the tensors of a call do not count.
    """

    def __init__(
        self,
        tower: Any,
        *,
        dtype: torch.dtype | None,
        soft_prompt: Tensor | None,
        class_token: ClassToken | None,
    ) -> None:
        blocks = list(tower.transformer.resblocks)
        self.stream_dtype: torch.dtype = tower.transformer.get_cast_dtype()  # of the residual stream
        self.dtype = dtype or self.stream_dtype
        self.embedding: Tensor = tower.token_embedding.weight
        self.positions: Tensor = tower.positional_embedding
        self.soft_prompt = soft_prompt
        self.class_token = class_token
        self.class_embedding: Any = getattr(tower, "cls_emb", None)
        self.blocks = [PackedBlock(block, dtype=self.dtype, last=block is blocks[-1]) for block in blocks]
        self.ln_final = tower.ln_final
        self.layers = len(blocks)
        self.heads = blocks[0].attn.num_heads
        self.width = blocks[0].attn.embed_dim
        self.head_size = self.width // self.heads
        self.projection = _projection(tower, dtype=self.dtype)
        self.size = self.width if self.projection is None else self.projection.size
        self.context = len(self.positions)
        self.device = self.embedding.device
        self.packed_half = self.dtype == torch.bfloat16 and self.blocks[0].fc.packed
        self.attention_dtype = torch.promote_types(self.dtype, torch.float32)  # on a CPU
        if self.packed_half:
            self.attention_dtype = torch.bfloat16
        hidden = blocks[0].mlp.c_fc.out_features
        self.block_flops = 2 * self.width * (4 * self.width + 2 * hidden)
        self.n_tokens = 0

    def counting_anew(self) -> TextTower:
        """The same weights, of which nothing is computed so far."""
        tower = copy.copy(self)
        tower.n_tokens = 0
        return tower

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """(..., T) int64 each, broadcast -> (..., T, width)."""
        is_class = None
        if self.class_token is not None:
            is_class = tokens == self.class_token.id
            tokens = tokens.masked_fill(is_class, self.class_token.null)
            positions = torch.where(is_class, self.context - 1, positions)
        x = F.embedding(tokens, self.embedding).to(self.stream_dtype)
        if is_class is not None:
            class_embedding = self.class_embedding.to(self.stream_dtype)
            x = torch.where(is_class[..., None], class_embedding, x)
        if self.soft_prompt is not None:
            n = len(self.soft_prompt)
            # Position 0 is the start token's, so that the learned embeddings begin at 1.
            rows = (positions - 1).clamp(0, n - 1)
            learned = F.embedding(rows, self.soft_prompt).to(self.stream_dtype)
            is_learned = (positions >= 1) & (positions <= n)
            x = torch.where(is_learned[..., None], learned, x)
        return x + F.embedding(positions, self.positions).to(self.stream_dtype)

    def visible(self, before: Sequence[int | None]) -> list[bool]:
        """Whether later tokens see the keys of some tokens, given the one before each; None is no padding."""
        if self.class_token is None:
            return [True] * len(before)
        return [token != self.class_token.null for token in before]

    def flops(self, tokens: int, *, reads: int) -> int:
        """Multiplications and additions in the matrix products of `tokens` nodes, `reads` of which are read."""
        all_but_last = (self.layers - 1) * self.block_flops * tokens
        keys_and_values = 2 * (2 * self.width**2)
        projection = 2 * self.width * self.size
        # Of the last block every node needs keys and values, and only those that are read need the rest.
        last = keys_and_values * tokens + (self.block_flops - keys_and_values) * reads
        return all_but_last + last + projection * reads

    def features(
        self, x: Tensor, *, mask: Tensor, reads: Tensor, past: Sequence[Tensor] = (), repeat: Tensor | None = None
    ) -> Tensor:
        """Features of the nodes that are read.

        Args:
            x: (B, T, width) embedded nodes; or (U, T, width), where `repeat` (B,) says which of the U each B takes.
            mask: (B or 1, T, K + T) additive, over the keys of `past` and then those of the nodes.
            reads: (B or 1, R) int64, the nodes to read.
            past: cached keys and values, each (layers, 2, B, heads, length, head size); their lengths sum to K.

        Returns:
            (B, R, D) float32, L2-normalised.
        """
        n_texts = len(x) if repeat is None else len(repeat)
        bias = self._bias(mask, n_texts=n_texts)
        x = self._all_but_last(x, bias=bias, past=past, repeat=repeat)  # (B, T, width)
        block = self.blocks[-1]
        rows = reads.expand(len(x), -1)
        normed = block.normed(x)
        own = split_heads(block.kv(normed), parts=2, heads=self.heads)
        kv = [*(states[-1] for states in past), own]
        (q,) = split_heads(block.q(_take(normed, rows)), parts=1, heads=self.heads)  # (B, heads, R, d)
        mask_of_reads = torch.take_along_dim(mask, reads[..., None], dim=1)
        mixed = self._mix(q, kv, bias=self._bias(mask_of_reads, n_texts=n_texts))
        x = block.after_attention(_take(x, rows), mixed)  # (B, R, width)
        x = self.ln_final(x).to(self.dtype)
        if self.projection is not None:
            x = self.projection(x)
        return F.normalize(x.float(), dim=-1)

    def states(self, x: Tensor, *, mask: Tensor, past: Sequence[Tensor] = ()) -> Tensor:
        """Keys and values of the nodes in every block, (layers, 2, B, heads, T, head size). Arguments as `features`."""
        shape = (self.layers, 2, len(x), self.heads, x.shape[1], self.head_size)
        states = torch.empty(shape, dtype=self.dtype, device=x.device)
        bias = self._bias(mask, n_texts=len(x))
        x = self._all_but_last(x, bias=bias, past=past, keep=states)
        block = self.blocks[-1]
        states[-1] = split_heads(block.kv(block.normed(x)), parts=2, heads=self.heads)
        return states

    def _all_but_last(
        self,
        x: Tensor,
        *,
        bias: Tensor,
        past: Sequence[Tensor],
        repeat: Tensor | None = None,
        keep: Tensor | None = None,
    ) -> Tensor:
        """What comes out of the last block but one, (B, T, width); keys and values of each block go to `keep`."""
        for layer, block in enumerate(self.blocks[:-1]):
            qkv = block.qkv(block.normed(x))
            if repeat is not None:
                x = x.index_select(0, repeat)
                qkv = qkv.index_select(0, repeat)
                repeat = None  # from here on each prefix has a state of its own
            split = split_heads(qkv, parts=3, heads=self.heads)
            q = split[0]
            own = split[1:]
            if keep is not None:
                keep[layer] = own
            kv = [*(states[layer] for states in past), own]
            mixed = self._mix(q, kv, bias=bias)
            x = block.after_attention(x, mixed)
        if repeat is not None:
            x = x[repeat]
        return x

    def _bias(self, mask: Tensor, *, n_texts: int) -> Tensor:
        """The mask (B or 1, R, K) as attention adds it in every block, (B or 1, 1, R, K) or (B * heads, R, K)."""
        if mask.device.type != "cpu":
            return mask[:, None].to(self.dtype)
        bias = mask[:, None]
        if self.packed_half:
            return bias
        bias = bias.to(self.attention_dtype)
        return bias.expand(n_texts, self.heads, -1, -1).flatten(0, 1)

    def _mix(self, q: Tensor, kv: Sequence[Tensor], *, bias: Tensor) -> Tensor:
        """Attention, softmax(q k^T / sqrt(d) + bias) v.

        q (B, H, R, d), keys and values in parts of the length K, each (2, B, H, length, d) -> (B, R, width).
        """
        if q.device.type == "cpu":
            mixed = self._mix_on_cpu(q, kv, bias=bias)
        else:
            k, v = torch.cat(list(kv), dim=3)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        side_by_side = _contiguous(mixed.transpose(1, 2), dtype=self.dtype)  # (B, R, H, d)
        return side_by_side.flatten(2)

    def _mix_on_cpu(self, q: Tensor, kv: Sequence[Tensor], *, bias: Tensor) -> Tensor:
        """`_mix`, before the heads stand side by side: (B, H, R, d)."""
        n, heads, rows, size = q.shape
        k, v = _join(kv, dtype=self.attention_dtype).view(2, n * heads, -1, size)
        q = _contiguous(q, dtype=self.attention_dtype).view(n * heads, rows, size)
        scale = size**-0.5
        if self.packed_half:
            scores = torch.bmm(q, k.transpose(1, 2)).view(n, heads, rows, -1)
            scores = torch.add(bias, scores, alpha=scale)  # float32
            scores = scores.view(n * heads, rows, -1)
        else:
            scores = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=scale)
        weights = scores.softmax(dim=-1).to(self.attention_dtype)
        return torch.bmm(weights, v).view(n, heads, rows, size)


def _projection(tower: Any, *, dtype: torch.dtype) -> Linear | None:
    """From the last norm to the features: a layer, a matrix (width, D), or None."""
    projection = getattr(tower, "text_projection", None)
    if projection is None:
        return None
    if isinstance(projection, nn.Linear):
        return Linear(projection.weight, projection.bias, dtype=dtype)
    return Linear(projection.T, None, dtype=dtype)


def additive(visible: Tensor) -> Tensor:
    """An attention mask (..., T, K) bool as float32: 0 where True, minus infinity elsewhere."""
    return torch.zeros(visible.shape, device=visible.device).masked_fill_(~visible, float("-inf"))


def _take(x: Tensor, rows: Tensor) -> Tensor:
    """(B, T, width), (B, R) -> (B, R, width)."""
    batch = torch.arange(len(x), device=x.device)[:, None]
    return x[batch, rows]


def _join(parts: Sequence[Tensor], *, dtype: torch.dtype) -> Tensor:
    """`torch.cat` along the length, (2, B, H, length, d), and conversion in one pass."""
    length = sum(part.shape[3] for part in parts)
    out = torch.empty(*parts[0].shape[:3], length, parts[0].shape[4], dtype=dtype)
    start = 0
    for part in parts:
        stop = start + part.shape[3]
        out[..., start:stop, :] = part
        start = stop
    return out


def _contiguous(x: Tensor, *, dtype: torch.dtype) -> Tensor:
    return x.to(dtype, memory_format=torch.contiguous_format).contiguous()
