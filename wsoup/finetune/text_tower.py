"""The text tower of an open_clip model, cut open where training needs it.

Exact to `model.encode_text` up to rounding, gradients included. What is left out:

* texts of a causal tower are cut at their ends, and their common beginning ("a photo of a") is computed once for all of
  them, with gradient;
* in the last block of a causal tower only the end-of-text token has a query and a feed-forward pass;
* a pass can start at any block, so that frozen lower blocks run once for several uses.

Prompts: see `wsoup.finetune.blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wsoup.core.errors import PoolError
from wsoup.finetune.blocks import (
    Places,
    call,
    laid_over,
    project,
    shared_pass,
    shared_row_pass,
    whole_pass,
    with_deep_prompt,
)
from wsoup.texts.reading import end_of_text


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


class TrainableTextTower:
    """The text tower of an open_clip model (CLIP or CustomTextCLIP), read at each call, so that it may be trained.

    Args:
        model: a model that `check_model` lets pass.
        save_memory: recompute the activations of each block in the backward pass instead of keeping them.
    """

    def __init__(self, model: Any, *, save_memory: bool = False) -> None:
        self.text: Any = getattr(model, "text", model)
        self.blocks: list[Any] = list(self.text.transformer.resblocks)
        self.save_memory = save_memory
        self.causal = self.text.attn_mask is not None and end_of_text(self.text) is not None

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
            prompts: (depth, n, width), see `wsoup.finetune.blocks`.
            soft: (positions (B, n) int64, vectors (n, width)): token embeddings replaced at places of their own.
        """
        text, shared = self.text, texts.shared
        dtype = text.transformer.get_cast_dtype()
        tail = text.token_embedding(texts.tokens[:, shared : texts.length]).to(dtype)
        head = text.token_embedding(texts.tokens[:1, :shared]).to(dtype) if shared else None
        if prompts is not None and head is not None:
            head = laid_over(head, prompts[0])
        elif prompts is not None:
            tail = laid_over(tail, prompts[0])
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
                tail = self._call(whole_pass, i, with_deep_prompt(tail, prompts, block=i), mask=mask)
            return TextState(None, tail)
        places = Places(texts.ends - texts.shared, length=tail.shape[1])
        packed = places.pack(tail)
        for i in range(first, stop):
            head = with_deep_prompt(head, prompts, block=i)
            head, packed = self._call(shared_pass, i, head, packed, mask=mask, places=places)
        return TextState(head, places.spread(packed))

    def finish(self, state: TextState, texts: Texts, *, prompts: Tensor | None = None) -> Tensor:
        """Last block, final norm, pooling and projection: (B, D), not normalised."""
        last, mask = len(self.blocks) - 1, self._mask(texts, state.tail)
        if state.head is None or mask is None:
            x = self._call(whole_pass, last, with_deep_prompt(state.tail, prompts, block=last), mask=mask)
            pooled = self.text.ln_final(x)[torch.arange(len(x), device=x.device), texts.ends]
        else:
            places = Places(texts.ends - texts.shared, length=state.tail.shape[1])
            head, packed = with_deep_prompt(state.head, prompts, block=last), places.pack(state.tail)
            pooled = self.text.ln_final(self._call(shared_row_pass, last, head, packed, mask=mask, places=places))
        return project(pooled, self.text.text_projection)

    def __call__(
        self, texts: Texts, *, prompts: Tensor | None = None, soft: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """B texts -> (B, D), not normalised."""
        return self.rest(self.start(texts, prompts=prompts, soft=soft), texts, first=0, prompts=prompts)

    def rest(self, state: TextState, texts: Texts, *, first: int, prompts: Tensor | None = None) -> Tensor:
        """All from block `first` on: (B, D), not normalised."""
        state = self.run(state, texts, first=first, stop=len(self.blocks) - 1, prompts=prompts)
        return self.finish(state, texts, prompts=prompts)

    def _call(self, function: Any, i: int, *states: Tensor, **options: Any) -> Any:
        return call(function, self.blocks[i], *states, save_memory=self.save_memory, **options)

    def _ends(self, tokens: Tensor) -> Tensor:
        """(B,) position that each text's features are read from."""
        if (end := end_of_text(self.text)) is not None:
            return end(tokens)
        first = "first" in (getattr(self.text, "text_pool_type", None), getattr(self.text, "pool_type", None))
        return torch.full((len(tokens),), 0 if first else tokens.shape[1] - 1, device=tokens.device)

    def _mask(self, texts: Texts, tail: Tensor) -> Tensor | None:
        """(T, P + T) bool, True where a position of the rest may look; None where the tower is not causal."""
        if self.text.attn_mask is None:
            return None
        seen = torch.ones(texts.length, texts.length, dtype=torch.bool, device=tail.device).tril()
        return seen[texts.shared :]
