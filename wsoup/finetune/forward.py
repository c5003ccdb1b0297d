"""Differentiable towers: an open_clip ViT CLIP cut open where training needs it.

Exact to `model.encode_image` and `model.encode_text` up to rounding, gradients included. What is left out:

* texts of a causal tower are cut at their ends, and their common beginning ("a photo of a") is computed once for all of
  them, with gradient;
* in the last block only the row that is read (class token, end-of-text) has a query and a feed-forward pass;
* a pass can start at any block, so that frozen lower blocks run once for several uses.

Prompts are (depth, n, width): the first n embeddings after the start token are replaced (text; section 3 of CoOp,
arXiv 2109.01134) or joined by (images; VPT, arXiv 2203.12119) the first of them, and the same positions are replaced
again before block i < depth by the i-th (deep prompts; MaPLe, arXiv 2210.03117).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from wsoup.errors import ModelError, PoolError


def check_model(model: nn.Module) -> None:
    """Raise ModelError unless both towers are open_clip's own transformers with standard blocks."""
    visual, text = getattr(model, "visual", None), getattr(model, "text", model)
    problem = None
    if not (hasattr(visual, "class_embedding") and hasattr(visual, "_embeds") and _standard(visual)):
        problem = f"an image tower of open_clip's VisionTransformer with standard blocks, found {type(visual).__name__}"
    elif not (hasattr(text, "token_embedding") and _standard(text)):
        problem = f"a text tower of open_clip's TextTransformer with standard blocks, found {type(text).__name__}"
    elif getattr(text, "cls_emb", None) is not None or getattr(text, "use_pad_mask", False):
        problem = "a text tower without class token and padding mask (CoCa has them)"
    if problem:
        raise ModelError(f"finetuning needs {problem}; choose a ViT CLIP, for example encoder.model: ViT-B-16")


def _standard(tower: Any) -> bool:
    blocks = getattr(getattr(tower, "transformer", None), "resblocks", [])
    return len(blocks) > 0 and all(isinstance(getattr(block, "attn", None), nn.MultiheadAttention) for block in blocks)


# ---------------------------------------------------------------------------------------------------------- blocks


def _heads(attn: nn.MultiheadAttention, normed: Tensor, *, parts: slice, places: Places | None = None) -> list[Tensor]:
    """Project (B, T, width), or packed rows, to some of q, k, v: each (B, heads, T, head size)."""
    width, heads = attn.embed_dim, attn.num_heads
    rows = slice(parts.start * width, parts.stop * width)
    bias = None if attn.in_proj_bias is None else attn.in_proj_bias[rows]
    y = F.linear(normed, attn.in_proj_weight[rows], bias)
    if places is not None:
        y = places.spread(y)
    n, length, _ = y.shape
    return list(y.view(n, length, parts.stop - parts.start, heads, width // heads).permute(2, 0, 3, 1, 4))


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


def _block(block: Any, x: Tensor, *, mask: Tensor | None) -> Tensor:
    """One residual attention block: (B, T, width) -> the same."""
    q, k, v = _heads(block.attn, block.ln_1(x), parts=slice(0, 3))
    return _feed_forward(block, x + _attention(block, q, k, v, mask=mask))


def _block_row(block: Any, x: Tensor) -> Tensor:
    """The same block, but only its first row comes out: (B, T, width) -> (B, 1, width)."""
    normed = block.ln_1(x)
    (q,) = _heads(block.attn, normed[:, :1], parts=slice(0, 1))
    k, v = _heads(block.attn, normed, parts=slice(1, 3))
    return _feed_forward(block, x[:, :1] + _attention(block, q, k, v, mask=None))


def _block_shared(block: Any, head: Tensor, tail: Tensor, mask: Tensor, places: Places) -> tuple[Tensor, Tensor]:
    """A causal block over texts with a common beginning: (1, P, width), packed (N, width) -> the same two."""
    q, k, v = _heads(block.attn, block.ln_1(head), parts=slice(0, 3))
    new_head = _feed_forward(block, head + _attention(block, q, k, v, mask=None, causal=True))
    own_q, own_k, own_v = _heads(block.attn, block.ln_1(tail), parts=slice(0, 3), places=places)
    keys, values = _after(k, own_k), _after(v, own_v)
    return new_head, _feed_forward(block, tail + _attention(block, own_q, keys, values, mask=mask, places=places))


def _block_shared_row(block: Any, head: Tensor, tail: Tensor, mask: Tensor, places: Places) -> Tensor:
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


# ---------------------------------------------------------------------------------------------------------- images


class ImageTower:
    """The image tower of an open_clip model, read at each call, so that it may be trained.

    Args:
        model: a model that `check_model` lets pass.
        save_memory: recompute the activations of each block in the backward pass instead of keeping them.
    """

    def __init__(self, model: Any, *, save_memory: bool = False) -> None:
        self.visual: Any = model.visual
        self.blocks: list[Any] = list(self.visual.transformer.resblocks)
        self.save_memory = save_memory

    def start(self, pixels: Tensor, *, prompts: Tensor | None = None) -> Tensor:
        """Patches, class token and prompts before the first block: (B, 3, H, W) -> (B, T, width)."""
        x = self.visual._embeds(pixels)
        if prompts is None:
            return x
        return torch.cat([x[:, :1], prompts[0].to(x.dtype).expand(len(x), -1, -1), x[:, 1:]], dim=1)

    def run(self, x: Tensor, *, first: int, stop: int, prompts: Tensor | None = None) -> Tensor:
        """Blocks `first` to `stop` - 1 (never the last, which `finish` does): (B, T, width) -> the same."""
        for i in range(first, stop):
            x = _call(self.save_memory, _masked_block, self.blocks[i], _deep(x, prompts, i), None)
        return x

    def finish(self, x: Tensor, *, prompts: Tensor | None = None) -> Tensor:
        """Last block, pooling and projection: (B, T, width) -> (B, D), not normalised."""
        visual, last = self.visual, len(self.blocks) - 1
        x = _deep(x, prompts, last)
        if visual.attn_pool is None and visual.pool_type == "tok":
            pooled = visual.ln_post(_call(self.save_memory, _block_row, self.blocks[last], x)[:, 0])
        else:
            pooled = visual._pool(_call(self.save_memory, _masked_block, self.blocks[last], x, None))[0]
        return project(pooled, visual.proj)

    def __call__(self, pixels: Tensor, *, prompts: Tensor | None = None) -> Tensor:
        """(B, 3, H, W) -> (B, D), not normalised."""
        x = self.run(self.start(pixels, prompts=prompts), first=0, stop=len(self.blocks) - 1, prompts=prompts)
        return self.finish(x, prompts=prompts)


def _masked_block(block: Any, x: Tensor, mask: Tensor | None) -> Tensor:
    return _block(block, x, mask=mask)


def _call(save_memory: bool, function: Any, *arguments: Any) -> Any:
    if save_memory and torch.is_grad_enabled():
        return checkpoint(function, *arguments, use_reentrant=False)
    return function(*arguments)


def _deep(x: Tensor, prompts: Tensor | None, i: int) -> Tensor:
    """Replace positions 1..n before block i by the i-th deep prompt, where there is one."""
    if prompts is None or not 0 < i < len(prompts):
        return x
    n = prompts.shape[1]
    return torch.cat([x[:, :1], prompts[i].to(x.dtype).expand(len(x), -1, -1), x[:, 1 + n :]], dim=1)


# ----------------------------------------------------------------------------------------------------------- texts


@dataclass(frozen=True)
class Texts:
    """Tokenised texts, cut and split for one pass.

    Attributes:
        tokens: (B, context) int64, whole.
        length: positions up to the longest end-of-text.
        shared: P, positions that all texts have in common; 0 where the tower is not causal.
        ends: (B,) int64, position of each end-of-text.
    """

    tokens: Tensor
    length: int
    shared: int
    ends: Tensor

    def take(self, index: Tensor) -> Texts:
        """Some of the texts, cut and split as before."""
        return Texts(self.tokens[index], length=self.length, shared=self.shared, ends=self.ends[index])


@dataclass(frozen=True)
class TextState:
    """Texts on their way through the blocks: common beginning (1, P, width) and the rest (B, T, width)."""

    head: Tensor | None
    tail: Tensor


class TextTower:
    """The text tower of an open_clip model (CLIP or CustomTextCLIP), read at each call, so that it may be trained.

    Args:
        model: a model that `check_model` lets pass.
        save_memory: recompute the activations of each block in the backward pass instead of keeping them.
    """

    def __init__(self, model: Any, *, save_memory: bool = False) -> None:
        self.text: Any = getattr(model, "text", model)
        self.blocks: list[Any] = list(self.text.transformer.resblocks)
        self.save_memory = save_memory
        self.pool = getattr(self.text, "text_pool_type", None) or self.text.pool_type
        self.eos: Any = getattr(self.text, "text_eos_id", None) or getattr(self.text, "eos_id", None)
        self.causal = self.text.attn_mask is not None and self.pool in ("argmax", "eos")

    @property
    def context(self) -> int:
        """Tokens that the tower takes."""
        return len(self.text.positional_embedding)

    def prepare(self, tokens: Tensor, *, n_prompt: int = 0, before: int | None = None) -> Texts:
        """Cut and split texts (B, context).

        Args:
            tokens: (B, context) int64.
            n_prompt: positions 1..n_prompt count as common, because a prompt is laid over them.
            before: no position from here on counts as common.

        Raises:
            PoolError: a text is too short for the prompt.
        """
        ends = self._ends(tokens)
        if not self.causal:
            return Texts(tokens, length=tokens.shape[1], shared=0, ends=ends)
        shortest, length = int(ends.min()), int(ends.max()) + 1
        if shortest <= n_prompt:
            raise PoolError(f"a text of {shortest - 1} tokens is shorter than the prompt of {n_prompt} that is trained")
        same = (tokens == tokens[:1]).all(dim=0)
        same[1 : 1 + n_prompt] = True
        common = int(same.int().cumprod(dim=0).sum())
        return Texts(tokens, length=length, shared=min(common, shortest, before or shortest), ends=ends)

    def start(
        self, texts: Texts, *, prompts: Tensor | None = None, soft: tuple[Tensor, Tensor] | None = None
    ) -> TextState:
        """Embeddings before the first block.

        Args:
            texts: B texts.
            prompts: (depth, n, width), see the module's header.
            soft: (positions (B, n) int64, vectors (n, width)): token embeddings replaced at places of their own.
        """
        text, shared = self.text, texts.shared
        dtype = text.transformer.get_cast_dtype()
        tail = text.token_embedding(texts.tokens[:, shared : texts.length]).to(dtype)
        head = text.token_embedding(texts.tokens[:1, :shared]).to(dtype) if shared else None
        if prompts is not None:
            head, tail = (
                (_laid_over(head, prompts[0]), tail) if head is not None else (None, _laid_over(tail, prompts[0]))
            )
        if soft is not None:
            places, vectors = soft
            index = (places - shared)[..., None].expand(-1, -1, tail.shape[-1])
            tail = tail.scatter(1, index, vectors.to(tail.dtype).expand(len(tail), -1, -1))
        positions = text.positional_embedding[: texts.length].to(dtype)
        return TextState(None if head is None else head + positions[:shared], tail + positions[shared:])

    def run(self, state: TextState, texts: Texts, *, first: int, stop: int, prompts: Tensor | None = None) -> TextState:
        """Blocks `first` to `stop` - 1 (never the last, which `finish` does)."""
        head, tail, mask = state.head, state.tail, self._mask(texts, state.tail)
        if head is None or mask is None:
            for i in range(first, stop):
                tail = _call(self.save_memory, _masked_block, self.blocks[i], _deep(tail, prompts, i), mask)
            return TextState(None, tail)
        places = Places(texts.ends - texts.shared, length=tail.shape[1])
        packed = places.pack(tail)
        for i in range(first, stop):
            arguments = (self.blocks[i], _deep(head, prompts, i), packed, mask, places)
            head, packed = _call(self.save_memory, _block_shared, *arguments)
        return TextState(head, places.spread(packed))

    def finish(self, state: TextState, texts: Texts, *, prompts: Tensor | None = None) -> Tensor:
        """Last block, final norm, pooling and projection: (B, D), not normalised."""
        last, mask = len(self.blocks) - 1, self._mask(texts, state.tail)
        if state.head is None or mask is None:
            x = _call(self.save_memory, _masked_block, self.blocks[last], _deep(state.tail, prompts, last), mask)
            pooled = self.text.ln_final(x)[torch.arange(len(x), device=x.device), texts.ends]
        else:
            places = Places(texts.ends - texts.shared, length=state.tail.shape[1])
            arguments = (self.blocks[last], _deep(state.head, prompts, last), places.pack(state.tail), mask, places)
            pooled = self.text.ln_final(_call(self.save_memory, _block_shared_row, *arguments))
        return project(pooled, self.text.text_projection)

    def __call__(
        self, texts: Texts, *, prompts: Tensor | None = None, soft: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """B texts -> (B, D), not normalised."""
        state = self.start(texts, prompts=prompts, soft=soft)
        state = self.run(state, texts, first=0, stop=len(self.blocks) - 1, prompts=prompts)
        return self.finish(state, texts, prompts=prompts)

    def _ends(self, tokens: Tensor) -> Tensor:
        """(B,) position that each text's features are read from."""
        if self.pool == "argmax":
            return tokens.argmax(dim=1)
        if self.pool == "eos":
            return torch.eq(tokens, self.eos).int().argmax(dim=1)
        return torch.full((len(tokens),), 0 if self.pool == "first" else tokens.shape[1] - 1, device=tokens.device)

    def _mask(self, texts: Texts, tail: Tensor) -> Tensor | None:
        """(T, P + T) bool, True where a position of the rest may look; None where the tower is not causal."""
        if self.text.attn_mask is None:
            return None
        seen = torch.ones(texts.length, texts.length, dtype=torch.bool, device=tail.device).tril()
        return seen[texts.shared :]


def _laid_over(x: Tensor, prompt: Tensor) -> Tensor:
    """Positions 1..n of (B, T, width) replaced by (n, width)."""
    n = len(prompt)
    return torch.cat([x[:, :1], prompt.to(x.dtype).expand(len(x), -1, -1), x[:, 1 + n :]], dim=1)
