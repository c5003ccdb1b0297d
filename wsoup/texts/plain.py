"""The plain way: `encode_text`, for towers that the fast path does not cover.

Most of them (SigLIP, MobileCLIP-S) read their padding, and a text takes the full context. A tower that masks it (those
of Hugging Face: BERT, XLM-R) gives the same feature without it, so texts are sorted by length and cut to the longest of
their batch.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.texts.tokens import Tokenizer, Tokens, last_token

MANY_TEXTS = 4096
"""From so many texts in one call on, it is said that they go the slow way."""
CUT_TOLERANCE = {None: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""Largest distance of two unit vectors that are the same feature, by autocast type."""
PROBES = ("", "a photo of a cat", "a blurry photo of the hard to see golden retriever, which has a wet nose.")


class PlainTexts:
    """`model.encode_text` in batches, L2-normalised.

    Args:
        model: with `encode_text`, in eval mode, on `device`.
        tokenizer: texts -> (P, context) int64.
        device: where the model is.
        dtype: autocast dtype or None.
        batch_tokens: tokens in one forward pass.
        masked: the id of padding, if the tower is believed to mask it; on first use that is held against the full
            context.

    Attributes:
        tokens: tokens computed so far.
        padding: the id that the tokenizer fills a row with.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        *,
        device: torch.device,
        dtype: torch.dtype | None,
        batch_tokens: int,
        masked: int | None,
    ) -> None:
        self.model, self.tokenizer, self.device, self.dtype = model, tokenizer, device, dtype
        self.batch_tokens, self.tokens = batch_tokens, 0
        self.padding = int(tokenizer([""])[0, -1])
        self._masked = masked if masked == self.padding else None
        self._checked, self._said = self._masked is None, False

    @property
    def cuts(self) -> bool:
        """Whether texts are cut to the longest of their batch."""
        if not self._checked:
            self._checked = True
            self._verify()
        return self._masked is not None

    def encode(self, texts: Sequence[str]) -> Tensor:
        """(P, D) float32; at least one text."""
        return self.encode_tokens(self.tokenizer(list(texts)))

    def encode_tokens(self, tokens: Tensor) -> Tensor:
        """Tokens (P, context) -> (P, D) float32."""
        if self.cuts:
            return self._encode_cut(tokens)
        self.tokens += tokens.numel()
        tokens = tokens.to(self.device)
        parts = split_evenly(len(tokens), self.batch_tokens // tokens.shape[1])
        return torch.cat([halving(partial(self._encode_rows, tokens), part) for part in parts])

    def encode_joined(self, prefixes: Sequence[Tokens], suffix: Tokens, *, context: int) -> Tensor:
        """Features of each prefix's tokens followed by those of the suffix: (C, D). The result must fit `context`."""
        rows = [[*prefix, *suffix, *([self.padding] * (context - len(prefix) - len(suffix)))] for prefix in prefixes]
        return self.encode_tokens(torch.tensor(rows))

    def say(self, count: int) -> None:
        """One line on stderr, once, where so many texts will take long."""
        if count >= MANY_TEXTS and not self._said and not self.cuts:
            self._said = True
            print("texts: this text tower shares no beginnings; each text takes its full context", file=sys.stderr)

    def _encode_cut(self, tokens: Tensor) -> Tensor:
        assert self._masked is not None
        ends = last_token(self._masked)(tokens) + 1
        lengths, order = ends.sort(stable=True)
        parts: list[Tensor] = []
        start = 0
        while start < len(order):
            # The longest comes last, so as many fit as the last of them lets.
            sizes = torch.arange(1, len(order) - start + 1) * lengths[start:]
            stop = start + max(1, int((sizes <= self.batch_tokens).sum()))
            rows = tokens[order[start:stop], : int(lengths[stop - 1])].to(self.device)
            self.tokens += rows.numel()
            parts.append(halving(partial(self._encode_rows, rows), slice(0, len(rows))))
            start = stop
        features = torch.cat(parts)
        return torch.empty_like(features).index_copy_(0, order.to(features.device), features)

    def _encode_rows(self, tokens: Tensor, part: slice) -> Tensor:
        return self._encode(tokens[part])

    def _encode(self, tokens: Tensor) -> Tensor:
        plainly = self.dtype is None or self.device.type == "meta"  # without weights it is only counted
        with contextlib.nullcontext() if plainly else torch.autocast(self.device.type, self.dtype):
            features = self.model.encode_text(tokens)  # type: ignore[operator]
        return F.normalize(features.float(), dim=-1)

    @torch.no_grad()
    def _verify(self) -> None:
        """Compare some texts cut with the same at the full context; else do without."""
        tokens = self.tokenizer(list(PROBES))
        try:
            distance = (self._encode_cut(tokens) - self._encode(tokens.to(self.device))).norm(dim=-1).max().item()
        except (RuntimeError, ValueError, IndexError) as error:  # whatever a tower of fixed length says to it
            distance, reason = float("inf"), f"cannot be cut ({str(error).splitlines()[0]})"
        else:
            reason = f"differ by {distance:.2g} when their padding is cut (features are unit vectors)"
        if not distance <= CUT_TOLERANCE.get(self.dtype, CUT_TOLERANCE[None]):
            warnings.warn(
                f"this text tower's features {reason}; texts are encoded at the full context, which is right but slow",
                stacklevel=3,
            )
            self._masked = None


def split_evenly(total: int, most: int) -> Iterator[slice]:
    """`total` things in as few parts of at most `most` as there must be, of equal size but for one.

    >>> list(split_evenly(7, 3))
    [slice(0, 3, None), slice(3, 5, None), slice(5, 7, None)]
    """
    parts = -(-total // max(1, most))
    edges = [i * (total // max(1, parts)) + min(i, total % max(1, parts)) for i in range(parts + 1)]
    yield from map(slice, edges, edges[1:])


def halving(compute: Callable[[slice], Tensor], part: slice) -> Tensor:
    """compute(part), (n, ...); where memory runs out, its two halves one after the other."""
    try:
        return compute(part)
    except torch.OutOfMemoryError:
        if part.stop - part.start == 1:
            raise
    middle = (part.start + part.stop) // 2
    return torch.cat([halving(compute, slice(part.start, middle)), halving(compute, slice(middle, part.stop))])
