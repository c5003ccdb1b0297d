"""open_clip's causal text tower in training; see `wsoup.finetune.towers`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from wsoup.base.errors import PoolError
from wsoup.finetune.blocks import Packing, prefix_last_row_pass, prefix_pass
from wsoup.finetune.towers import Tower, deep_prompt, replace_prompt
from wsoup.towers.pooling import end_of_text


@dataclass(frozen=True)
class Texts:
    """Tokenised texts, with the lengths at which to cut and split them.

    Attributes:
        tokens: (B, context) int64, uncut.
        length: positions up to the last end-of-text.
        shared: P, length of the common prefix, at least 1.
        ends: (B,) int64 on the CPU, position of each end-of-text.
    """

    tokens: Tensor
    length: int
    shared: int
    ends: Tensor

    @cached_property
    def packing(self) -> Packing:
        """How the tokens after the prefix are packed."""
        return Packing(self.ends - self.shared, length=self.length - self.shared, device=self.tokens.device)

    @cached_property
    def mask(self) -> Tensor:
        """(T, P + T) bool, True where a position after the prefix may attend."""
        visible = torch.ones(self.length, self.length, dtype=torch.bool, device=self.tokens.device).tril()
        return visible[self.shared :]

    def take(self, index: Tensor) -> Texts:
        """A subset of the texts, (b,) int64 on the CPU, with the same lengths."""
        tokens = self.tokens[index.to(self.tokens.device, non_blocking=True)]
        return Texts(tokens, length=self.length, shared=self.shared, ends=self.ends[index])


class TextState(NamedTuple):
    """Texts between two blocks: common prefix (1, P, width) and the rest (B, T, width)."""

    head: Tensor
    tail: Tensor


class TrainableTextTower(Tower):
    """The text tower of an open_clip model (CLIP or CustomTextCLIP).

    Args:
        model: a model that passes `check_model`.
    """

    def __init__(self, model: nn.Module) -> None:
        self.text: Any = getattr(model, "text", model)
        super().__init__(self.text)

    def prepare(self, tokens: Tensor, *, n_prompt: int = 0, before: int | None = None) -> Texts:
        """Where to cut and split texts.

        Args:
            tokens: (B, context) int64.
            n_prompt: positions 1..n_prompt belong to the prefix, because a prompt replaces them.
            before: the prefix ends before this position.

        Raises:
            PoolError: a text is too short for the prompt.
        """
        find_ends: Any = end_of_text(self.text)
        ends = find_ends(tokens).cpu()
        shortest = int(ends.min())
        length = int(ends.max()) + 1
        if shortest <= n_prompt:
            raise PoolError(f"a text of {shortest - 1} tokens is shorter than the prompt of {n_prompt} that is trained")
        same = (tokens == tokens[:1]).all(dim=0)
        # What a prompt replaces is the same in all texts, whatever tokens are there.
        same[1 : 1 + n_prompt] = True
        common = int(same.int().cumprod(dim=0).sum())  # positions before the first difference
        # The end of a text is read from its own rows, never from the prefix.
        shared = min(common, shortest)
        if before is not None:
            shared = min(shared, before)
        return Texts(tokens, length=length, shared=shared, ends=ends)

    def start(
        self, texts: Texts, *, prompts: Tensor | None = None, soft: tuple[Tensor, Tensor] | None = None
    ) -> TextState:
        """Embeddings before the first block.

        Args:
            texts: B texts.
            prompts: (depth, n, width), replacing the first tokens.
            soft: a soft descriptor: positions (B, n) int64 and the vectors (n, width) to put there.
        """
        text = self.text
        shared = texts.shared
        dtype = text.transformer.get_cast_dtype()
        tail = text.token_embedding(texts.tokens[:, shared : texts.length]).to(dtype)
        head = text.token_embedding(texts.tokens[:1, :shared]).to(dtype)
        if prompts is not None:
            head = replace_prompt(head, prompts[0])
        if soft is not None:
            soft_positions, vectors = soft
            in_tail = soft_positions - shared
            index = in_tail[..., None].expand(-1, -1, tail.shape[-1])
            of_every_text = vectors.to(tail.dtype).expand(len(tail), -1, -1)
            tail = tail.scatter(1, index, of_every_text)
        positions = text.positional_embedding[: texts.length].to(dtype)
        return TextState(head + positions[:shared], tail + positions[shared:])

    def run(self, state: TextState, texts: Texts, *, first: int, stop: int, prompts: Tensor | None = None) -> TextState:
        """Blocks `first` to `stop` - 1, not the last, which is for `run_from`."""
        packing = texts.packing
        head = state.head
        rows = packing.pack(state.tail)
        for i in range(first, stop):
            head = deep_prompt(head, prompts, block=i)
            head, rows = self.call(prefix_pass, i, head, rows, mask=texts.mask, packing=packing)
        return TextState(head, packing.unpack(rows))

    def run_from(self, state: TextState, texts: Texts, *, first: int, prompts: Tensor | None = None) -> Tensor:
        """Blocks from `first` on, final norm, pooling and projection: (B, D), not normalised."""
        packing = texts.packing
        last = len(self.blocks) - 1
        state = self.run(state, texts, first=first, stop=last, prompts=prompts)
        head = deep_prompt(state.head, prompts, block=last)
        rows = packing.pack(state.tail)
        pooled = self.call(prefix_last_row_pass, last, head, rows, mask=texts.mask, packing=packing)
        return self.text.ln_final(pooled) @ self.text.text_projection

    def __call__(
        self, texts: Texts, *, prompts: Tensor | None = None, soft: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """B texts -> (B, D), not normalised."""
        return self.run_from(self.start(texts, prompts=prompts, soft=soft), texts, first=0, prompts=prompts)
