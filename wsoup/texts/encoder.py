"""Text features of every class with every candidate, exact to `model.encode_text` and far cheaper.

A causal text tower reads only what came before the end-of-text token. So the keys and values of "a photo of a cat,"
are computed once per class; each candidate then costs its own tokens and the end-of-text token; beginnings that
candidates share are computed once per class as well; and the beginning that *all* candidates of a call share (a word
chain in progress) is kept for the next call. Other towers go through `encode_text`.

This makes the paper's searches (Algorithms 1 and 2) affordable on a CPU without changing what they find.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, SkipValidation
from torch import Tensor

from wsoup.base.arguments import Natural, Texts, Whole, at_the_door
from wsoup.base.arrays import Device
from wsoup.texts.batch_tokens import default_batch_tokens
from wsoup.texts.coverage import read_tower
from wsoup.texts.fast import FastTexts
from wsoup.texts.joined import JoinedTexts
from wsoup.texts.models import checked_size, finite
from wsoup.texts.plain import TOLERANCE, PlainTexts
from wsoup.texts.splitting import SplitTokenizer
from wsoup.texts.tokens import Tokenizer, Tokens, last_token
from wsoup.texts.tower import TextTower
from wsoup.towers.encoder import Encoder
from wsoup.towers.kept import Kept, Same

PLAIN_BATCH = 16
"""How many times more tokens the plain path gets at once, whose batches are of whole contexts."""
CACHE_BYTES = 3 << 29
"""Keys and values kept between calls, 1.5 GiB: 1,000 class prompts take 0.5 GiB in ViT-B, 0.7 GiB in ViT-L."""
GRID_BYTES = 1 << 28
"""Features in one block of `PromptEncoder.grid_blocks`."""
Offset = Annotated[int, Field(lt=2**63, strict=True)]
OffsetFormula = Literal["wording", "code"]
NULL: Tokens = (0,)
TF32_TOLERANCE = 1e-2
"""As `TOLERANCE`, for float32 products in TF32."""
PROBE_PREFIXES = ("a photo of a cat", "a blurry photo of the hard to see golden retriever")
PROBE_SUFFIXES = ("", ", which has four legs", ", which has a wet nose and a tail.", ", sharp")


class PromptEncoder:
    """Text features, exact to `model.encode_text` followed by L2 normalisation, up to rounding.

    It reads the weights once: after a change to the model's weights, make a new encoder.

    Args:
        model: an open_clip model, or any module with `encode_text`, in eval mode.
        tokenizer: its tokenizer, texts -> (P, context) int64.
        device: where the model is.
        dtype: autocast dtype, or None for the model's own precision.
        batch_tokens: tokens in one forward pass; by default what suits the device. Halved if memory runs out.
        cache_bytes: keys and values kept between calls.
        kept: what was made of this model before (`wsoup.towers.kept.kept_with`); None makes all anew.

    Attributes:
        texts_encoded: texts, each a class prompt with a candidate, whose features were asked for so far.
    """

    @at_the_door
    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        *,
        device: Device,
        dtype: torch.dtype | None = None,
        batch_tokens: Whole | None = None,
        cache_bytes: Natural = CACHE_BYTES,
        kept: Annotated[Kept | None, SkipValidation] = None,
    ) -> None:
        self.device = torch.device(device)
        self.dtype = dtype
        self.model = model
        self.tokenizer = tokenizer
        self.texts_encoded = 0
        self._origin: Encoder | None = None
        kept = kept or Kept()
        self._size = checked_size(model, tokenizer, device=self.device, kept=kept)
        plain_tokens = PLAIN_BATCH * (batch_tokens or default_batch_tokens(self.device, in_bf16=False))
        with torch.no_grad():
            self._plain = PlainTexts(
                model, tokenizer, device=self.device, dtype=dtype, batch_tokens=plain_tokens, kept=kept
            )
            covered = kept.once(("text tower", dtype), partial(read_tower, model, dtype=dtype))
            self._fast: JoinedTexts | None = None
            if covered is None:
                self._splitter = SplitTokenizer(tokenizer, reads=last_token(self._plain.padding))
                return
            tower, reads = covered
            self._splitter = SplitTokenizer(tokenizer, reads=reads, class_token=tower.class_token)
            fast_tokens = batch_tokens or default_batch_tokens(self.device, in_bf16=tower.packed_half)
            texts = FastTexts(tower.counting_anew(), batch_tokens=fast_tokens, cache_bytes=cache_bytes)
            self._fast = JoinedTexts(texts, self._splitter)
            if not kept.once(("texts are exact", dtype, self._tolerance(), Same(tokenizer)), self._is_exact):
                self._fast = None
            # Nobody asked for what was compared.
            self.texts_encoded = 0
            self._plain.tokens = 0
            texts.tower.n_tokens = 0

    @classmethod
    def of(cls, encoder: Encoder) -> PromptEncoder:
        """The text features of a loaded model; it can be pickled if that can."""
        texts = cls(encoder.model, encoder.tokenizer, device=encoder.device, dtype=encoder.dtype, kept=encoder.kept)
        texts._origin = encoder
        return texts

    def __reduce__(self) -> tuple[object, ...]:
        if self._origin is None:
            raise TypeError("only a PromptEncoder made by PromptEncoder.of can be sent to another process")
        return _made_once, (self._origin,)

    @property
    def fast(self) -> bool:
        """Whether texts take the fast path."""
        return self._fast is not None

    @property
    def way(self) -> str:
        """How texts are encoded: "fast" (shared prefixes), "cut" (whole texts without padding) or "plain"."""
        if self.fast:
            return "fast"
        if self._plain.cuts:
            return "cut"
        return "plain"

    @property
    def tower(self) -> TextTower | None:
        """The text tower with packed weights, or None if `fast` is False."""
        if self._fast is None:
            return None
        return self._fast.texts.tower

    @property
    def tokens_encoded(self) -> int:
        """Tokens actually computed so far."""
        if self._fast is None:
            return self._plain.tokens
        return self._plain.tokens + self._fast.texts.tower.n_tokens

    @property
    def encoded(self) -> str:
        """What stages print: texts and tokens so far, in this process."""
        return f"{self.texts_encoded} texts and {self.tokens_encoded} tokens encoded here"

    @at_the_door
    @torch.no_grad()
    def encode(self, prompts: Texts) -> Tensor:
        """Features of whole texts: P texts -> (P, D) float32, L2-normalised, in the order given."""
        self.texts_encoded += len(prompts)
        if not prompts:
            return torch.empty(0, self._size, device=self.device)
        if self._fast is None:
            return finite(self._plain.encode(prompts))
        return finite(self._fast.texts.encode(self._splitter.sequences(prompts)))

    @at_the_door
    @torch.no_grad()
    def encode_grid(
        self,
        prefixes: Texts,
        suffixes: Texts,
        *,
        token_offset: Offset = 0,
        offset_formula: OffsetFormula = "wording",
    ) -> Tensor:
        """Features of every prefix with every suffix appended.

        Args:
            prefixes: C texts such as "a photo of a cat,".
            suffixes: S texts such as " which has claws."; "" for none.
            token_offset: null tokens (id 0) between prefix and suffix.
            offset_formula: "wording", as the paper says; or "code", as many tokens but as in the authors' code: the
                prefix ends with a period instead of its comma, then come an end of text, null tokens, and the comma.
                Towers that do not take the fast path, or read a class token, always have "wording".

        Returns:
            (S, C, D) float32, L2-normalised. Texts that are too long are truncated as the tokenizer does it.

        Raises:
            PoolError: a text is too long and `token_offset` is not 0, so that no tokenizer says how to truncate it.
            ModelError: `token_offset` with a tokenizer that has no start and end tokens; a feature is not finite.
        """
        if token_offset:
            self._splitter.check_offset(prefixes, suffixes, token_offset=token_offset)
        out = torch.empty(len(suffixes), len(prefixes), self._size, device=self.device)
        if not out.numel():
            return out
        self.texts_encoded += len(suffixes) * len(prefixes)
        if token_offset:
            self._fill_with_offset(out, prefixes, suffixes, token_offset=token_offset, formula=offset_formula)
        elif self._fast is None:
            for i, suffix in enumerate(suffixes):
                out[i] = self._plain.encode([prefix + suffix for prefix in prefixes])
        else:
            self._fast.fill(out, prefixes, suffixes)
        return finite(out)

    def grid_blocks(
        self,
        prefixes: Sequence[str],
        suffixes: Sequence[str],
        *,
        token_offset: int = 0,
        offset_formula: OffsetFormula = "wording",
        block_bytes: int = GRID_BYTES,
    ) -> Iterator[tuple[slice, Tensor]]:
        """`encode_grid` in bounded memory: (which suffixes, their features (n, C, D)), in the order given.

        Adjacent suffixes share beginnings, so a sorted pool is cheapest. Block boundaries depend only on the numbers of
        prefixes and features; `block_bytes` is the largest size of a block.
        """
        bytes_of_one = 4 * self._size * max(1, len(prefixes))
        step = max(1, block_bytes // bytes_of_one)
        for start in range(0, len(suffixes), step):
            which = slice(start, min(start + step, len(suffixes)))
            block = suffixes[which]
            yield which, self.encode_grid(prefixes, block, token_offset=token_offset, offset_formula=offset_formula)

    def _fill_with_offset(
        self, out: Tensor, prefixes: Sequence[str], suffixes: Sequence[str], *, token_offset: int, formula: str
    ) -> None:
        """Fill `out` with `token_offset` null tokens between prefixes and suffixes."""
        gap = NULL * token_offset
        if formula == "code" and self.fast and self._splitter.class_token is None:
            prefixes = [f"{prefix.removesuffix(',')}." for prefix in prefixes]
            comma = self._splitter.suffixes([","])[0][:-1]
            gap = comma
            if token_offset > 1:
                gap = (self._splitter.end, *NULL * (token_offset - 2), *comma)
        ends = [gap + suffix for suffix in self._splitter.suffixes(suffixes)]
        starts = self._splitter.prefixes(prefixes)
        if self._fast is None:
            for i, end in enumerate(ends):
                out[i] = self._plain.encode_joined(starts, end, context=self._splitter.context)
            return
        for i, classes in self._fast.fill_tokens(out, tuple(prefixes), ends, rows=range(len(ends))):
            wholes = [self._splitter.finished(starts[c] + ends[i]) for c in classes]
            out[i, classes] = self._fast.texts.encode(wholes)

    def _tolerance(self) -> float:
        """Largest distance of two unit vectors that count as the same feature."""
        assert self._fast is not None
        tolerance = TOLERANCE[self._fast.texts.tower.dtype]
        if self.device.type == "cuda" and torch.backends.cuda.matmul.fp32_precision == "tf32":
            tolerance = max(tolerance, TF32_TOLERANCE)
        return tolerance

    def _is_exact(self) -> bool:
        """Whether both ways of the fast path give the features of `encode_text` on a few texts; warns if not."""
        texts: list[str] = []
        for suffix in PROBE_SUFFIXES:
            texts.extend(prefix + suffix for prefix in PROBE_PREFIXES)
        expected = self._plain.encode(texts)
        grid = self.encode_grid(PROBE_PREFIXES, PROBE_SUFFIXES).flatten(0, 1)
        differences = torch.stack([grid - expected, self.encode(texts) - expected])
        distance = differences.norm(dim=-1).max().item()
        # A distance may be NaN, which is in no order.
        is_exact = distance <= self._tolerance()
        if not is_exact:
            warnings.warn(
                f"the fast text path differs from this model's encode_text by {distance:.2g} (features are unit "
                "vectors); texts are encoded the plain way, which is right but slow",
                stacklevel=5,
            )
        return is_exact


_last: list[PromptEncoder] = []
"""The one that this process unpickled last; no more, since each keeps up to `CACHE_BYTES`."""


def _made_once(encoder: Encoder) -> PromptEncoder:
    """The text features of an encoder in another process, where each of its shards would pack the weights again."""
    if not _last or _last[0]._origin is not encoder:
        _last[:] = [PromptEncoder.of(encoder)]
    return _last[0]
