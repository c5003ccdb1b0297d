"""The forward pass of a causal text tower, over tokens whose earlier keys and values are already known.

Follows the blocks of open_clip's `TextTransformer` (pre-norm, LayerScale where there is one, GELU or QuickGELU, final
norm and projection of the end-of-text token) and is exact to them up to rounding. It differs in what it leaves out:

* nothing after the end-of-text token is computed, and nothing whose keys and values are given as `past`;
* in the first block, queries, keys and values depend on token and position alone, so texts that differ only in what
  came before share them;
* in the last block only the rows that are read need more than keys and values.

On a CPU the weights are packed once for oneDNN, with activation and residual sum fused into the matrix product. There,
masked attention over some tens of keys is faster as two batched products than as the flash kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

QUICK_GELU = 1.702
"""QuickGELU(x) = x sigmoid(1.702 x) = SiLU(1.702 x) / 1.702; the factor goes into the weights on both sides."""
PACKED_ROWS = 1024
"""Rows that the packed layout is chosen for; any other number gives the same result at nearly the same speed."""


class Linear:
    """x -> act(x W^T + b), with the weights packed once. `act`: "none", "gelu", "gelu_tanh" or "swish" (SiLU)."""

    def __init__(self, weight: Tensor, bias: Tensor | None, *, dtype: torch.dtype) -> None:
        self.bias = None if bias is None else bias.detach().to(dtype)
        self.weight = weight.detach().to(dtype).contiguous()
        self.packed = weight.device.type == "cpu" and dtype == torch.float32 and _has_onednn()
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight, PACKED_ROWS)

    def __call__(self, x: Tensor, *, act: str = "none") -> Tensor:
        if self.packed:
            name, _, how = act.partition("_")
            algorithm = (how or "none") if name == "gelu" else ""
            return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, name, [], algorithm)
        y = F.linear(x, self.weight, self.bias)
        if act == "swish":
            return F.silu(y, inplace=True)
        return y if act == "none" else F.gelu(y, approximate="tanh" if act == "gelu_tanh" else "none")

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + x W^T + b."""
        if self.packed:
            return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.weight, self.bias, "add")
        return residual + self(x)


class Block:
    """One residual attention block with packed weights; LayerScale is folded into the projections."""

    def __init__(self, block: Any, *, dtype: torch.dtype, last: bool) -> None:
        attn, mlp = block.attn, block.mlp
        weight, bias, width = attn.in_proj_weight, attn.in_proj_bias, attn.embed_dim
        self.ln_1, self.ln_2 = block.ln_1, block.ln_2
        if last:
            self.q = Linear(weight[:width], bias[:width], dtype=dtype)
            self.kv = Linear(weight[width:], bias[width:], dtype=dtype)
        else:
            self.qkv = Linear(weight, bias, dtype=dtype)
        self.act = activation_name(mlp.gelu) or "none"
        stretch = QUICK_GELU if self.act == "swish" else 1.0
        self.fc = Linear(mlp.c_fc.weight * stretch, mlp.c_fc.bias * stretch, dtype=dtype)
        gamma_1, gamma_2 = (getattr(scale, "gamma", weight.new_ones(1)) for scale in (block.ls_1, block.ls_2))
        self.out = Linear(attn.out_proj.weight * gamma_1[:, None], attn.out_proj.bias * gamma_1, dtype=dtype)
        self.proj = Linear(mlp.c_proj.weight * (gamma_2 / stretch)[:, None], mlp.c_proj.bias * gamma_2, dtype=dtype)


class TextTower:
    """A causal text tower with packed weights.

    Args:
        parts: token_embedding, positional_embedding, transformer, ln_final, text_projection of an open_clip tower.
        dtype: of the matrix products; None for the model's own.
        soft_prompt: (n, width) learned embeddings of tokens 1..n of every text, or None.

    Attributes:
        context: tokens that the tower can take.
        size: D, features per text.
        state_bytes: bytes of keys and values per token.
        product_sizes: (inputs, outputs) of each matrix product in a block.
        layer_flops: multiplications and additions in them, per token.
    """

    def __init__(self, parts: dict[str, Any], *, dtype: torch.dtype | None, soft_prompt: Tensor | None) -> None:
        blocks = list(parts["transformer"].resblocks)
        self.stream: torch.dtype = parts["transformer"].get_cast_dtype()  # of the residual stream
        self.dtype = dtype or self.stream
        self.embedding: Tensor = parts["token_embedding"].weight
        self.positions: Tensor = parts["positional_embedding"]
        self.soft_prompt = soft_prompt
        self.blocks = [Block(b, dtype=self.dtype, last=b is blocks[-1]) for b in blocks]
        self.ln_final = parts["ln_final"]
        self.heads, self.width = blocks[0].attn.num_heads, blocks[0].attn.embed_dim
        self.layers, self.head_size = len(blocks), self.width // self.heads
        projection = parts["text_projection"]
        self.size = self.width
        self.projection = None
        if projection is not None:
            is_module = isinstance(projection, nn.Linear)
            weight, bias = (projection.weight, projection.bias) if is_module else (projection.T, None)
            self.projection, self.size = Linear(weight, bias, dtype=self.dtype), len(weight)
        self.context = len(self.positions)
        self.device = self.embedding.device
        self.state_bytes = 2 * self.layers * self.width * self.dtype.itemsize
        width, hidden = self.width, blocks[0].mlp.c_fc.out_features
        self.product_sizes = ((width, 3 * width), (width, width), (width, hidden), (hidden, width))
        self.layer_flops = sum(2 * inner * outer for inner, outer in self.product_sizes)

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """(..., T) int64 each, broadcast -> (..., T, width)."""
        x = F.embedding(tokens, self.embedding).to(self.stream)
        if self.soft_prompt is not None:
            n = len(self.soft_prompt)
            learned = F.embedding((positions - 1).clamp(0, n - 1), self.soft_prompt).to(self.stream)
            x = torch.where(((positions >= 1) & (positions <= n))[..., None], learned, x)
        return x + F.embedding(positions, self.positions).to(self.stream)

    def flops(self, tokens: int, *, reads: int, shared: int = 0) -> int:
        """Multiplications and additions in the matrix products of `tokens` nodes, `reads` of which are read.

        `shared` counts the nodes whose queries, keys and values in the first block come from another node.
        """
        square, products = 2 * self.width**2, (self.layers - 1) * self.layer_flops * tokens
        last = 2 * square * tokens + (self.layer_flops - 2 * square + 2 * self.width * self.size) * reads
        return products + last - (3 * square * shared if self.layers > 1 else 0)

    def features(
        self, x: Tensor, *, mask: Tensor, reads: Tensor, past: Sequence[Tensor] = (), repeat: Tensor | None = None
    ) -> Tensor:
        """Features of the nodes that are read.

        Args:
            x: (B, T, width) embedded nodes; or (U, T, width), where `repeat` (B,) says which of the U each B takes.
            mask: (B or 1, T, K + T) additive, over the keys of `past` and then the nodes.
            reads: (B or 1, R) int64, the nodes to read.
            past: keys and values before the nodes, each (layers, 2, B, heads, length, head size); lengths sum to K.

        Returns:
            (B, R, D) float32, L2-normalised.
        """
        x = self._all_but_last(x, mask=mask, past=past, repeat=repeat)
        block, rows = self.blocks[-1], reads.expand(len(x), -1)
        normed = self._norm(block.ln_1, x)
        k, v = self._with_past(*self._split(block.kv(normed), parts=2), past=past, layer=-1)
        (q,) = self._split(block.q(_take(normed, rows)), parts=1)  # (B, heads, R, d)
        mixed = self._mix(q, k, v, mask=torch.take_along_dim(mask, reads[..., None], dim=1))
        x = self._feed_forward(block, block.out.add_to(_take(x, rows), mixed))  # (B, R, width)
        x = self._norm(self.ln_final, x)
        return F.normalize((x if self.projection is None else self.projection(x)).float(), dim=-1)

    def states(self, x: Tensor, *, mask: Tensor, past: Sequence[Tensor] = ()) -> Tensor:
        """Keys and values of the nodes in every block, (layers, 2, B, heads, T, head size). Arguments as `features`."""
        shape = (self.layers, 2, len(x), self.heads, x.shape[1], self.head_size)
        found = torch.empty(shape, dtype=self.dtype, device=x.device)
        x = self._all_but_last(x, mask=mask, past=past, keep=found)
        block = self.blocks[-1]
        found[-1] = self._split(block.kv(self._norm(block.ln_1, x)), parts=2)
        return found

    def _all_but_last(
        self,
        x: Tensor,
        *,
        mask: Tensor,
        past: Sequence[Tensor],
        repeat: Tensor | None = None,
        keep: Tensor | None = None,
    ) -> Tensor:
        for layer, block in enumerate(self.blocks[:-1]):
            qkv = block.qkv(self._norm(block.ln_1, x))
            if repeat is not None:
                x, qkv, repeat = x[repeat], qkv[repeat], None
            split = self._split(qkv, parts=3)
            if keep is not None:
                keep[layer] = split[1:]
            q, k, v = split
            mixed = self._mix(q, *self._with_past(k, v, past=past, layer=layer), mask=mask)
            x = self._feed_forward(block, block.out.add_to(x, mixed))
        return x if repeat is None else x[repeat]

    def _feed_forward(self, block: Block, x: Tensor) -> Tensor:
        return block.proj.add_to(x, block.fc(self._norm(block.ln_2, x), act=block.act))

    def _norm(self, norm: nn.Module, x: Tensor) -> Tensor:
        return norm(x).to(self.dtype)

    def _split(self, x: Tensor, *, parts: int) -> Tensor:
        return split_heads(x, parts=parts, heads=self.heads)

    @staticmethod
    def _with_past(k: Tensor, v: Tensor, *, past: Sequence[Tensor], layer: int) -> tuple[Tensor, Tensor]:
        if not past:
            return k, v
        return torch.cat([*(p[layer, 0] for p in past), k], dim=2), torch.cat([*(p[layer, 1] for p in past), v], dim=2)

    def _mix(self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor) -> Tensor:
        """softmax(q k^T / sqrt(d) + mask) v: (B, H, R, d), (B, H, K, d) twice, (B or 1, R, K) -> (B, R, width)."""
        n, heads, rows, size = q.shape
        if q.device.type == "cpu" and q.dtype == torch.float32:
            bias = mask[:, None].expand(n, heads, -1, -1).reshape(n * heads, rows, -1)
            q, k, v = (t.reshape(n * heads, -1, size) for t in (q, k, v))
            weights = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=size**-0.5).softmax(dim=-1)
            mixed = torch.bmm(weights, v).view(n, heads, rows, size)
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None].to(q.dtype))
        return mixed.transpose(1, 2).reshape(n, rows, -1)


def split_heads(x: Tensor, *, parts: int, heads: int) -> Tensor:
    """(B, T, parts * width) -> (parts, B, heads, T, head size), a view; the parts are some of q, k, v."""
    return x.unflatten(-1, (parts, heads, -1)).permute(2, 0, 3, 1, 4)


def additive(visible: Tensor) -> Tensor:
    """(..., T, K) bool -> float32 with 0 where True and minus infinity elsewhere."""
    return torch.zeros(visible.shape, device=visible.device).masked_fill_(~visible, float("-inf"))


def activation_name(module: nn.Module) -> str | None:
    """The fused name of an activation module, or None where there is none."""
    if isinstance(module, nn.GELU):
        return "gelu_tanh" if module.approximate == "tanh" else "gelu"
    return "swish" if type(module).__name__ == "QuickGELU" else None


def _take(x: Tensor, rows: Tensor) -> Tensor:
    """(B, T, width), (B, R) -> (B, R, width)."""
    return x[torch.arange(len(x), device=x.device)[:, None], rows]


def _has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
