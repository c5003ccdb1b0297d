"""The plain way: `encode_text` at the full context, for towers that the fast path does not cover."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.texts.tokens import Tokenizer, Tokens

PAD = 0


class PlainTexts:
    """`model.encode_text` in batches, L2-normalised.

    Args:
        model: with `encode_text`, in eval mode, on `device`.
        tokenizer: texts -> (P, context) int64.
        device: where the model is.
        dtype: autocast dtype or None.
        batch_tokens: tokens in one forward pass.

    Attributes:
        tokens: tokens computed so far.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        *,
        device: torch.device,
        dtype: torch.dtype | None,
        batch_tokens: int,
    ) -> None:
        self.model, self.tokenizer, self.device, self.dtype = model, tokenizer, device, dtype
        self.batch_tokens, self.tokens = batch_tokens, 0

    def encode(self, texts: Sequence[str]) -> Tensor:
        """(P, D) float32; at least one text."""
        return self.encode_tokens(self.tokenizer(list(texts)))

    def encode_tokens(self, tokens: Tensor) -> Tensor:
        """Tokens (P, context) -> (P, D) float32."""
        tokens = tokens.to(self.device)
        self.tokens += tokens.numel()
        parts = split_evenly(len(tokens), self.batch_tokens // tokens.shape[1])
        return torch.cat([halving(lambda part: self._encode(tokens[part]), part) for part in parts])

    def encode_joined(self, prefixes: Sequence[Tokens], suffix: Tokens, *, context: int) -> Tensor:
        """Features of each prefix's tokens followed by those of the suffix: (C, D). The result must fit `context`."""
        rows = [[*prefix, *suffix, *([PAD] * (context - len(prefix) - len(suffix)))] for prefix in prefixes]
        return self.encode_tokens(torch.tensor(rows))

    def _encode(self, tokens: Tensor) -> Tensor:
        autocast = contextlib.nullcontext() if self.dtype is None else torch.autocast(self.device.type, self.dtype)
        with autocast:
            features = self.model.encode_text(tokens)  # type: ignore[operator]
        return F.normalize(features.float(), dim=-1)


def split_evenly(total: int, most: int) -> Iterator[slice]:
    """`total` things in as few parts of at most `most` as there must be, of equal size but for one.

    >>> list(split_evenly(7, 3))
    [slice(0, 3, None), slice(3, 5, None), slice(5, 7, None)]
    """
    parts = -(-total // max(1, most))
    start = 0
    for i in range(parts):
        stop = start + total // parts + (i < total % parts)
        yield slice(start, stop)
        start = stop


def halving(compute: Callable[[slice], Tensor], part: slice) -> Tensor:
    """compute(part), (n, ...); where memory runs out, its two halves one after the other."""
    try:
        return compute(part)
    except torch.OutOfMemoryError:
        if part.stop - part.start == 1:
            raise
    middle = (part.start + part.stop) // 2
    return torch.cat([halving(compute, slice(part.start, middle)), halving(compute, slice(middle, part.stop))])
