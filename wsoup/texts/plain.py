"""The plain path: `model.encode_text`, for towers that the fast path does not cover.

Most of these (SigLIP, MobileCLIP-S) read their padding, so that every text takes the full context. A tower that masks
padding (Hugging Face's BERT and XLM-R) gives the same features without it: texts are sorted by length, and each batch
is cut to its longest text.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.texts.tokens import Tokenizer, Tokens, last_token

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""Largest distance of two unit vectors that count as the same feature, by the precision of the matrix products."""
PROBES = ("", "a photo of a cat", "a blurry photo of the hard to see golden retriever, which has a wet nose.")


class PlainTexts:
    """`model.encode_text` in batches, L2-normalised.

    Args:
        model: with `encode_text`, in eval mode, on `device`.
        tokenizer: texts -> (P, context) int64.
        device: where the model is.
        dtype: autocast dtype or None.
        batch_tokens: tokens in one forward pass.
        masked_padding: the id of padding if the tower seems to mask it, which is verified on first use; else None.

    Attributes:
        tokens: tokens computed so far.
        padding: the id that the tokenizer pads with.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        *,
        device: torch.device,
        dtype: torch.dtype | None,
        batch_tokens: int,
        masked_padding: int | None,
    ) -> None:
        self.model, self.tokenizer, self.device, self.dtype = model, tokenizer, device, dtype
        self.batch_tokens, self.tokens = batch_tokens, 0
        self.padding = int(tokenizer([""])[0, -1])
        self._masked = masked_padding == self.padding
        self._verified = not self._masked

    @property
    def cuts(self) -> bool:
        """Whether each batch is cut to its longest text."""
        if not self._verified:
            self._verified = True
            self._verify()
        return self._masked

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
        return torch.cat([halving(partial(self._encode, tokens), part) for part in parts])

    def encode_joined(self, prefixes: Sequence[Tokens], suffix: Tokens, *, context: int) -> Tensor:
        """Features of each prefix's tokens followed by the suffix's, which must fit `context`: (C, D)."""
        rows = [[*prefix, *suffix, *([self.padding] * (context - len(prefix) - len(suffix)))] for prefix in prefixes]
        return self.encode_tokens(torch.tensor(rows))

    def _encode_cut(self, tokens: Tensor) -> Tensor:
        lengths, order = (last_token(self.padding)(tokens) + 1).sort(stable=True)
        parts: list[Tensor] = []
        start = 0
        while start < len(order):
            # The last text of a batch is its longest, and decides how many fit.
            sizes = torch.arange(1, len(order) - start + 1) * lengths[start:]
            stop = start + max(1, int((sizes <= self.batch_tokens).sum()))
            rows = tokens[order[start:stop], : int(lengths[stop - 1])].to(self.device)
            self.tokens += rows.numel()
            parts.append(halving(partial(self._encode, rows), slice(0, len(rows))))
            start = stop
        features = torch.cat(parts)
        return torch.empty_like(features).index_copy_(0, order.to(features.device), features)

    def _encode(self, tokens: Tensor, part: slice) -> Tensor:
        with torch.autocast(self.device.type, self.dtype) if self.dtype else contextlib.nullcontext():
            features = self.model.encode_text(tokens[part])  # type: ignore[operator]
        return F.normalize(features.float(), dim=-1)

    @torch.no_grad()
    def _verify(self) -> None:
        """Compare cut texts with the same at the full context; if they differ, stop cutting."""
        tokens = self.tokenizer(list(PROBES))
        try:
            whole = self._encode(tokens.to(self.device), slice(None))
            distance = (self._encode_cut(tokens) - whole).norm(dim=-1).max().item()
        except (RuntimeError, ValueError, IndexError) as error:  # a tower of fixed length
            distance, reason = float("inf"), f"cannot be cut ({str(error).splitlines()[0]})"
        else:
            reason = f"differ by {distance:.2g} when their padding is cut (features are unit vectors)"
        if not distance <= TOLERANCE.get(self.dtype or torch.float32, TOLERANCE[torch.float32]):
            warnings.warn(
                f"this text tower's features {reason}; texts are encoded at the full context, which is right but slow",
                stacklevel=3,
            )
            self._masked = False


def split_evenly(total: int, most: int) -> Iterator[slice]:
    """Slices of `total` items: as few as `most` items in each allow, with sizes that differ by at most one.

    >>> list(split_evenly(7, 3))
    [slice(0, 3, None), slice(3, 5, None), slice(5, 7, None)]
    """
    parts = -(-total // max(1, most))
    edges = [i * (total // max(1, parts)) + min(i, total % max(1, parts)) for i in range(parts + 1)]
    yield from map(slice, edges, edges[1:])


def halving(compute: Callable[[slice], Tensor], part: slice) -> Tensor:
    """compute(part), (n, ...); if memory runs out, its two halves one after the other."""
    try:
        return compute(part)
    except torch.OutOfMemoryError:
        if part.stop - part.start == 1:
            raise
    middle = (part.start + part.stop) // 2
    return torch.cat([halving(compute, slice(part.start, middle)), halving(compute, slice(middle, part.stop))])
