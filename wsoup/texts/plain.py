"""The plain path: every text through `model.encode_text`."""

import contextlib
import warnings
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.texts.batches import halving, split_evenly
from wsoup.texts.tokens import Tokenizer, Tokens, last_token
from wsoup.towers.kept import Kept, Same

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""Largest distance of two unit vectors that count as the same feature, by the precision of the matrix products."""
PROBES = ("", "a photo of a cat", "a blurry photo of the hard to see golden retriever, which has a wet nose.")
"""Texts of different lengths, the empty one too, whose features are compared with and without padding."""


class PlainTexts:
    """`model.encode_text` in batches, L2-normalised.

    Most such towers (SigLIP, MobileCLIP-S) read their padding, so that every text takes the full context. One that
    masks padding (Hugging Face's BERT and XLM-R) gives the same features without it, which is verified: texts are
    sorted by length, and each batch is cut to its longest text.

    Args:
        model: with `encode_text`, in eval mode, on `device`.
        tokenizer: texts -> (P, context) int64.
        device: where the model is.
        dtype: autocast dtype or None.
        batch_tokens: tokens in one forward pass.
        kept: where it is noted whether texts may be cut.

    Attributes:
        tokens: tokens computed so far.
        padding: the id that the tokenizer pads with.
        cuts: whether each batch is cut to its longest text.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        *,
        device: torch.device,
        dtype: torch.dtype | None,
        batch_tokens: int,
        kept: Kept,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.device = device
        self.dtype = dtype
        self.batch_tokens = batch_tokens
        self.tokens = 0
        self.padding = int(tokenizer([""])[0, -1])
        self.cuts = False
        if _masked_padding(model) == self.padding:
            self.cuts = kept.once(("texts may be cut", dtype, Same(tokenizer)), self._may_be_cut)

    def encode(self, texts: Sequence[str]) -> Tensor:
        """(P, D) float32; at least one text."""
        return self.encode_tokens(self.tokenizer(list(texts)))

    def encode_tokens(self, tokens: Tensor) -> Tensor:
        """Tokens (P, context) -> (P, D) float32."""
        if self.cuts:
            return self._encode_cut(tokens)
        self.tokens += tokens.numel()
        tokens = tokens.to(self.device)
        texts_at_once = self.batch_tokens // tokens.shape[1]
        encode = partial(self._encode, tokens)
        return torch.cat([halving(encode, part) for part in split_evenly(len(tokens), texts_at_once)])

    def encode_joined(self, prefixes: Sequence[Tokens], suffix: Tokens, *, context: int) -> Tensor:
        """Features of each prefix's tokens followed by the suffix's, which must fit `context`: (C, D)."""
        rows = torch.full((len(prefixes), context), self.padding)
        for row, prefix in zip(rows, prefixes, strict=True):
            tokens = prefix + suffix
            row[: len(tokens)] = torch.tensor(tokens)
        return self.encode_tokens(rows)

    def _encode_cut(self, tokens: Tensor) -> Tensor:
        text_lengths = last_token(self.padding)(tokens) + 1
        lengths, order = text_lengths.sort(stable=True)
        parts: list[Tensor] = []
        start = 0
        while start < len(order):
            # The last text of a batch is its longest, and decides how many fit.
            sizes = torch.arange(1, len(order) - start + 1) * lengths[start:]
            fitting = int((sizes <= self.batch_tokens).sum())
            stop = start + max(1, fitting)
            rows = tokens[order[start:stop], : int(lengths[stop - 1])].to(self.device)
            self.tokens += rows.numel()
            parts.append(halving(partial(self._encode, rows), slice(0, len(rows))))
            start = stop
        features = torch.cat(parts)
        return torch.empty_like(features).index_copy_(0, order.to(features.device), features)

    def _encode(self, tokens: Tensor, part: slice) -> Tensor:
        precision: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        if self.dtype is not None:
            precision = torch.autocast(self.device.type, self.dtype)
        with precision:
            features = self.model.encode_text(tokens[part])  # type: ignore[operator]
        return F.normalize(features.float(), dim=-1)

    def _may_be_cut(self) -> bool:
        """Whether cut texts have the features that they have at the full context; warns if not."""
        tokens = self.tokenizer(list(PROBES))
        try:
            whole = self._encode(tokens.to(self.device), slice(None))
            differences = self._encode_cut(tokens) - whole
            distance = differences.norm(dim=-1).max().item()
        except (RuntimeError, ValueError, IndexError):  # a tower of fixed length
            distance = float("inf")
        tolerance = TOLERANCE.get(self.dtype or torch.float32, TOLERANCE[torch.float32])
        same = distance <= tolerance
        if not same:
            problem = f"features differ by {distance:.2g} when their padding is cut (features are unit vectors)"
            step = "texts are encoded at the full context, which is right but slow"
            warnings.warn(f"this text tower's {problem}; {step}", stacklevel=5)
        return same


def _masked_padding(model: nn.Module) -> int | None:
    """The id of padding if a two-way text tower seems to mask it; None if the tower may read it."""
    tower = getattr(model, "text", None)
    config = getattr(tower, "config", None)
    if hasattr(tower, "pooler") and hasattr(tower, "transformer") and config is not None:
        return getattr(config, "pad_token_id", None)  # open_clip's HFTextEncoder
    if getattr(tower, "use_pad_mask", False):
        return getattr(tower, "pad_id", None)
    return None
