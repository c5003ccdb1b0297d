"""Text features of every class with every candidate, exact to `model.encode_text` and a great deal cheaper.

A causal text tower reads only what came before the end-of-text token. So the keys and values of "a photo of a cat,"
are computed once per class; each candidate then costs its own tokens and the end-of-text token; beginnings that
candidates share are computed once per class as well; and the beginning that *all* candidates of a call share (a word
chain in progress) is kept for the next call. Other towers are sent through `encode_text`.

This is what makes the searches of the paper (Algorithms 1 and 2) affordable on a CPU without changing what they find.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from wsoup.core.arguments import Natural, Texts, Whole, at_the_door
from wsoup.core.arrays import Device
from wsoup.core.errors import ModelError, PoolError
from wsoup.texts.fits import beyond_context, refuse
from wsoup.texts.forward import TextTower
from wsoup.texts.plain import PlainTexts
from wsoup.texts.reading import masked_padding, read_tower
from wsoup.texts.shared import SharedTexts
from wsoup.texts.states import Slab
from wsoup.texts.tokens import Seams, Tokenizer, Tokens, last_token, split_head
from wsoup.texts.tried import check_texts, finite
from wsoup.towers.encoder import Encoder

CPU_BATCH_TOKENS, GPU_BATCH_TOKENS = 1024, 65536
"""Tokens in one forward pass: on a CPU as many as stay in its cache, on a GPU as many as keep it busy."""
BYTES_PER_TOKEN = 1 << 17
"""Memory that one token takes in a forward pass, at most: a small GPU gets smaller batches."""
PLAIN_BATCH = 16
"""The plain way is given so many times more tokens at once: its batches are of whole contexts."""
CACHE_BYTES = 3 << 29
"""Keys and values kept between calls, 1.5 GiB: 1,000 class prompts take 0.5 GiB in ViT-B, 0.7 GiB in ViT-L."""
GRID_BYTES = 1 << 28
"""Features in one block of `PromptEncoder.grid_blocks`."""
OffsetFormula = Literal["wording", "code"]
NULL: Tokens = (0,)
KEPT_PREFIX_LISTS = 4
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""Largest distance of two unit vectors that are the same feature, by the precision of the matrix products."""
TF32_TOLERANCE = 1e-2
PROBE_PREFIXES = ("a photo of a cat", "a blurry photo of the hard to see golden retriever")
PROBE_SUFFIXES = ("", ", which has four legs", ", which has a wet nose and a tail.", ", sharp")


class PromptEncoder:
    """Text features, exact to `model.encode_text` followed by L2 normalisation, up to rounding.

    The weights are read once: after a change of the model's weights, make a new encoder. Of a model on the meta device,
    which has none, texts and tokens are counted, and features have no values.

    Args:
        model: an open_clip model, or any module with `encode_text`, in eval mode.
        tokenizer: its tokenizer, texts -> (P, context) int64.
        device: where the model is.
        dtype: autocast dtype, or None for the model's own precision.
        batch_tokens: tokens in one forward pass; by default what suits the device. Halved where memory runs out.
        cache_bytes: keys and values kept between calls.
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
    ) -> None:
        self.device, self.dtype, self.tokenizer = torch.device(device), dtype, tokenizer
        check_texts(model, tokenizer, device=self.device)
        self._origin: Encoder | None = None
        batch_tokens = batch_tokens or default_batch_tokens(self.device)
        self._plain = PlainTexts(
            model,
            tokenizer,
            device=self.device,
            dtype=dtype,
            batch_tokens=PLAIN_BATCH * batch_tokens,
            masked=masked_padding(model),
        )
        with torch.no_grad():
            read = read_tower(model, dtype=dtype)
        tower, reads = read or (None, last_token(self._plain.padding))
        self._shared: SharedTexts | None = None
        if tower is not None:
            self._shared = SharedTexts(tower, batch_tokens=batch_tokens, cache_bytes=cache_bytes)
        self._seams = Seams(tokenizer, reads=reads, class_token=tower.class_token if tower else None)
        self._slabs: OrderedDict[tuple[str, ...], tuple[list[Slab], list[int]]] = OrderedDict()
        self._checked = self._shared is None
        self._plain_size: int | None = None
        self._texts = 0

    @classmethod
    def of(cls, encoder: Encoder) -> PromptEncoder:
        """The text features of a loaded model; to another process it travels as that model does."""
        made = cls(encoder.model, encoder.tokenizer, device=encoder.device, dtype=encoder.dtype)
        made._origin = encoder
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        if self._origin is None:
            raise TypeError("a PromptEncoder that was not made of an Encoder cannot be sent to another process")
        return PromptEncoder.of, (self._origin,)

    @property
    def fast(self) -> bool:
        """Whether texts go through the shared-prefix path. On first use it is held against `encode_text`."""
        if not self._checked:
            self._checked = True
            self._verify()
        return self._shared is not None

    @property
    def way(self) -> str:
        """How texts are encoded: "fast" (shared beginnings), "cut" (whole texts without padding) or "plain"."""
        return "fast" if self.fast else "cut" if self._plain.cuts else "plain"

    @property
    def tower(self) -> TextTower | None:
        """The text tower with packed weights, or None where `fast` is False."""
        return self._shared.tower if self.fast and self._shared is not None else None

    @property
    def tokens_encoded(self) -> int:
        """Tokens really computed so far."""
        shared = self._shared.tokens + self._shared.states.tokens if self._shared else 0
        return self._plain.tokens + shared

    @property
    def texts_encoded(self) -> int:
        """Texts, each a class prompt with a candidate, whose features were asked for so far."""
        return self._texts

    @property
    def encoded(self) -> str:
        """What stages print: texts and tokens so far, in this process."""
        return f"{self.texts_encoded} texts and {self.tokens_encoded} tokens encoded here"

    @property
    def flops(self) -> int:
        """Multiplications and additions in the matrix products of the fast path so far, without attention."""
        return self._shared.flops + self._shared.states.flops if self._shared else 0

    @at_the_door
    @torch.no_grad()
    def encode(self, prompts: Texts) -> Tensor:
        """Features of whole texts: P texts -> (P, D) float32, L2-normalised, in the order given."""
        fast = self.fast
        self._texts += len(prompts)
        return finite(self._whole(prompts, fast=fast))

    def _whole(self, prompts: Sequence[str], *, fast: bool = True) -> Tensor:
        if not fast or self._shared is None:
            return self._plain.encode(prompts or PROBE_PREFIXES)[: len(prompts)]
        return self._shared.encode(self._seams.sequences(prompts))

    @at_the_door
    @torch.no_grad()
    def encode_grid(
        self,
        prefixes: Texts,
        suffixes: Texts,
        *,
        token_offset: Annotated[int, Field(lt=2**63, strict=True)] = 0,
        offset_formula: OffsetFormula = "wording",
    ) -> Tensor:
        """Features of every prefix with every suffix appended.

        Args:
            prefixes: C texts such as "a photo of a cat,".
            suffixes: S texts such as " which has claws."; "" for none.
            token_offset: null tokens (id 0) between prefix and suffix.
            offset_formula: "code": as many tokens, but as the authors' code has them. The prefix ends with a period
                in place of its comma, and behind it come an end of text, null tokens, and last the comma. Towers that
                do not take the fast path, or read a class token, have the "wording" all the same.

        Returns:
            (S, C, D) float32, L2-normalised. A text that is too long is truncated as the tokenizer does it.

        Raises:
            PoolError: a text is too long and `token_offset` is not 0: no tokenizer says how to truncate that.
            ModelError: `token_offset` with a tokenizer that has no start and end tokens; a feature is not finite.
        """
        if token_offset:
            self._check_offset(prefixes, suffixes, token_offset=token_offset)
        out = torch.empty(len(suffixes), len(prefixes), self._size(), device=self.device)
        if not out.numel():
            return out
        self._texts += len(suffixes) * len(prefixes)
        if token_offset:
            self._with_offset(out, prefixes, suffixes, token_offset=token_offset, formula=offset_formula)
        elif not self.fast:
            self._plain.say(len(prefixes) * len(suffixes))
            for i, suffix in enumerate(suffixes):
                out[i] = self._plain.encode([prefix + suffix for prefix in prefixes])
        else:
            for head, members in _by_head(suffixes).items():
                self._with_head(out, prefixes, suffixes, head=head, members=members)
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
        """`encode_grid` in bounded memory: (which suffixes, their (n, C, D) features), in the order given.

        Suffixes next to each other share beginnings, so a sorted pool is cheapest. Block boundaries depend on the
        numbers of prefixes and features alone; `block_bytes` is how large a block may be.
        """
        step = max(1, block_bytes // (4 * self._size() * max(1, len(prefixes))))
        for start in range(0, len(suffixes), step):
            which = slice(start, min(start + step, len(suffixes)))
            some = suffixes[which]
            yield which, self.encode_grid(prefixes, some, token_offset=token_offset, offset_formula=offset_formula)

    def _with_head(
        self, out: Tensor, prefixes: Sequence[str], suffixes: Sequence[str], *, head: str, members: list[int]
    ) -> None:
        """Fill `out` for the suffixes `members`, all of which begin with `head` before their first space."""
        texts = tuple(prefix + head for prefix in prefixes)
        tails = [suffixes[i][len(head) :] for i in members]
        safe = self._seams.safe(texts, tails)
        joined = [(i, tail) for i, tail, ok in zip(members, tails, safe, strict=True) if ok]
        if joined:
            sequences = self._seams.suffixes([tail for _, tail in joined])
            lengths = self._fill(out, texts, sequences, members=[i for i, _ in joined])
            # Texts too long for the context are done again from the whole string, which the tokenizer truncates.
            for (i, _), sequence in zip(joined, sequences, strict=True):
                if too_long := [c for c, n in enumerate(lengths) if n + len(sequence) > self._seams.room]:
                    out[i, too_long] = self._whole([prefixes[c] + suffixes[i] for c in too_long])
        for i in (i for i, ok in zip(members, safe, strict=True) if not ok):
            out[i] = self._whole([prefix + suffixes[i] for prefix in prefixes])

    def _fill(
        self, out: Tensor, prefixes: tuple[str, ...], sequences: list[Tokens], *, members: list[int]
    ) -> list[int]:
        """Fill `out` for the suffixes `members`, given as tokens.

        Returns the prefixes' lengths in tokens, (C,); `room` for those that nothing can be appended to, whose features
        are for the caller to do again, as are those of texts that come out longer than `room`.
        """
        assert self._shared is not None
        if prefixes not in self._slabs:
            starts = self._seams.prefixes(prefixes)
            lengths = [self._seams.room if self._seams.whole_only(start) else len(start) for start in starts]
            self._slabs[prefixes] = self._shared.slabs(starts), lengths
            if len(self._slabs) > KEPT_PREFIX_LISTS:
                self._slabs.popitem(last=False)
        self._slabs.move_to_end(prefixes)
        slabs, lengths = self._slabs[prefixes]
        self._shared.fill(out, slabs, sequences, members=members)
        return lengths

    def _with_offset(
        self, out: Tensor, prefixes: Sequence[str], suffixes: Sequence[str], *, token_offset: int, formula: str
    ) -> None:
        gap = NULL * token_offset
        if formula == "code" and self.fast and self._seams.class_token is None:
            prefixes = [f"{prefix.removesuffix(',')}." for prefix in prefixes]
            ended = (self._seams.end,) if token_offset > 1 else ()
            gap = ended + NULL * (token_offset - 2) + self._seams.endings([","])[0][:-1]
        endings = [gap + ending for ending in self._seams.endings(suffixes)]
        starts = self._seams.prefixes(prefixes)
        if not self.fast or self._shared is None:
            for i, ending in enumerate(endings):
                out[i] = self._plain.encode_joined(starts, ending, context=self._seams.context)
            return
        sequences = [self._seams.finished(ending) for ending in endings]
        lengths = self._fill(out, tuple(prefixes), sequences, members=list(range(len(suffixes))))
        for i, (ending, sequence) in enumerate(zip(endings, sequences, strict=True)):
            if too_long := [c for c, n in enumerate(lengths) if n + len(sequence) > self._seams.room]:
                whole = [self._seams.finished(starts[c] + ending) for c in too_long]
                out[i, too_long] = self._shared.encode(whole)

    def _check_offset(self, prefixes: Sequence[str], suffixes: Sequence[str], *, token_offset: int) -> None:
        if len(self._seams.start) != 1:
            raise ModelError(
                f"token offset {token_offset} needs a tokenizer that puts one start token before a text and an end "
                f"token after it; this one gives {(*self._seams.start, self._seams.end)} for the empty text"
            )
        if token_offset < 0:
            raise PoolError(f"token offset {token_offset} is negative; give the number of null tokens, 0 or more")
        for c, i in beyond_context(prefixes, suffixes, tokenizer=self.tokenizer, token_offset=token_offset):
            refuse(
                suffixes[i],
                after=prefixes[c],
                tokenizer=self.tokenizer,
                step="shorten the text or the offset",
                token_offset=token_offset,
            )

    def _size(self) -> int:
        """D, features per text."""
        if self.fast and self._shared is not None:
            return self._shared.tower.size
        if self._plain_size is None:
            self._plain_size = self._plain.encode(PROBE_PREFIXES).shape[-1]
        return self._plain_size

    @torch.no_grad()
    def _verify(self) -> None:
        """Compare a handful of texts with `encode_text`, in the ways that texts are encoded; else do without."""
        assert self._shared is not None
        texts = [prefix + suffix for suffix in PROBE_SUFFIXES for prefix in PROBE_PREFIXES]
        want = self._plain.encode(texts)
        grid = self.encode_grid(PROBE_PREFIXES, PROBE_SUFFIXES).flatten(0, 1)
        differences = torch.stack([grid - want, self.encode(texts) - want])
        self._texts = 0  # these were nobody's
        if differences.is_meta:
            return
        distance = differences.norm(dim=-1).max().item()
        coarse = self.device.type == "cuda" and torch.get_float32_matmul_precision() != "highest"
        if not distance <= max(TOLERANCE[self._shared.tower.dtype], TF32_TOLERANCE * coarse):
            warnings.warn(
                f"the fast text path differs from this model's encode_text by {distance:.2g} (features are unit "
                "vectors); texts are encoded the plain way, which is right but slow",
                stacklevel=3,
            )
            self._shared = None


def default_batch_tokens(device: torch.device) -> int:
    """Tokens in one forward pass. From the memory that a GPU has, not from what is free: it may not change results."""
    if device.type == "cpu":
        return CPU_BATCH_TOKENS
    if device.type != "cuda":
        return GPU_BATCH_TOKENS // 4
    memory = torch.cuda.get_device_properties(device).total_memory
    return max(CPU_BATCH_TOKENS, min(GPU_BATCH_TOKENS, memory // (2 * BYTES_PER_TOKEN)))


def _by_head(suffixes: Sequence[str]) -> dict[str, list[int]]:
    """Indices of the suffixes by what they have before their first white space."""
    groups: dict[str, list[int]] = {}
    for i, suffix in enumerate(suffixes):
        groups.setdefault(split_head(suffix)[0], []).append(i)
    return groups
