"""Text towers as models have them: what a model can do, its plain path, and whether the fast path covers it.

The fast path covers a tower whose mask is causal, whose feature is read at the end-of-text token or at a class token
after the context (CoCa), and whose blocks are all open_clip's standard residual attention blocks. This is read from the
model itself, not from its name. All others go through `encode_text`: two-way attention (SigLIP), Hugging Face towers,
and the deep prompts, soft descriptors and adapters of a finetuned model. There is a warning where only unknown blocks
stand in the way, since a causal tower ought to be fast.

A model's `soft_prompt` (n, width), learned embeddings of tokens 1..n, is covered. All this is a first guess, which
`wsoup.texts.encoder.PromptEncoder` verifies on a few texts before it relies on it.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.base.errors import ModelError, WsoupError, one_line, shown_value
from wsoup.texts.tokens import ClassToken, Tokenizer, Tokens, last_token
from wsoup.texts.tower import TextTower
from wsoup.towers.blocks import foreign_block
from wsoup.towers.pooling import end_of_text

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""Largest distance of two unit vectors that count as the same feature, by the precision of the matrix products."""
PROBES = ("", "a photo of a cat", "a blurry photo of the hard to see golden retriever, which has a wet nose.")


def check_has(model: object, method: str) -> None:
    """Raise ModelError if a model lacks a method."""
    if not callable(getattr(model, method, None)):
        raise ModelError(f"model is {type(model).__name__}, which has no {method}; expected a model like open_clip's")


def check_texts(model: Any, tokenizer: Tokenizer, *, device: torch.device) -> int:
    """D, the size of a text feature; ModelError unless the tokenizer and the model's `encode_text` work."""
    check_has(model, "encode_text")
    probes = PROBES[1:]
    tokens = matrix_from("tokenizer", lambda: tokenizer(list(probes)), n=len(probes))
    if tokens.is_floating_point():
        raise ModelError(f"tokenizer gives {tokens.dtype}; expected whole numbers, (P, context) token ids")
    return matrix_from("model.encode_text", lambda: model.encode_text(tokens.to(device)), n=len(probes)).shape[1]


@torch.no_grad()
def output_of(name: str, call: Callable[[], Any]) -> Any:
    """The result of calling a part of a model; ModelError if it fails."""
    try:
        return call()
    except (WsoupError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a user's model may raise anything
        reason = f"{type(error).__name__}: {one_line(error, limit=200)}"
        raise ModelError(f"{name} cannot do what this needs ({reason}); repair it, or take another") from error


def matrix_from(name: str, call: Callable[[], Any], *, n: int) -> Tensor:
    """`output_of` a call on `n` inputs: (n, x), x at least 1; ModelError if it is anything else."""
    output = output_of(name, call)
    if not isinstance(output, Tensor):
        what = shown_value(output)
    elif output.dim() != 2 or len(output) != n or not output.shape[1] or output.is_complex():
        what = f"a tensor {tuple(output.shape)} of {output.dtype}"
    else:
        return output
    raise ModelError(f"{name} gives {what} for {n}; expected a tensor ({n}, ...), a row for each")


def finite(features: Tensor) -> Tensor:
    """The features (..., D) unchanged; ModelError if any is not finite."""
    if not bool(features.sum().isfinite()):
        step = "choose encoder.precision: fp32, or other weights"
        raise ModelError(f"text features of this model are not finite (NaN or infinity); {step}")
    return features


# ------------------------------------------------------------------------------------------------- the fast path


def read_tower(model: nn.Module, *, dtype: torch.dtype | None) -> tuple[TextTower, Callable[[Tensor], Tensor]] | None:
    """The text tower of `model`, and which position of (P, context) tokens it reads; None if it is not covered."""
    if any(getattr(model, name, None) is not None for name in ("deep_prompts", "soft_descriptors")):
        return None  # a finetuned model whose texts hold more than their tokens and a soft prompt
    tower: Any = model.text if isinstance(getattr(model, "text", None), nn.Module) else model
    parts = ("token_embedding", "positional_embedding", "transformer", "ln_final")
    if any(getattr(tower, name, None) is None for name in parts):
        return None
    reads = end_of_text(tower)
    class_token = None
    if getattr(tower, "cls_emb", None) is not None:
        if getattr(tower, "correct_cls_mask", True):
            return None  # another mask than that of all published weights (`ClassToken`)
        class_token = ClassToken(id=len(tower.token_embedding.weight), null=int(getattr(tower, "pad_id", 0)))
        reads = last_token(class_token.null)  # it reads all that is not padding
    blocks = getattr(tower.transformer, "resblocks", ())
    if not _is_causal(getattr(tower, "attn_mask", None)) or not blocks or reads is None:
        return None
    if any(hasattr(getattr(block, "mlp", None), "adapter") for block in blocks):
        return None  # finetuned by `wsoup.finetune.tuners`
    foreign = foreign_block(blocks)
    if foreign:
        problem = f"the fast text path does not know this causal text tower's {foreign}"
        warnings.warn(f"{problem}; texts are encoded the plain way, which is right but slow", stacklevel=3)
        return None
    soft_prompt = getattr(model, "soft_prompt", None)
    return TextTower(tower, dtype=dtype, soft_prompt=soft_prompt, class_token=class_token), reads


def _is_causal(mask: object) -> bool:
    if not isinstance(mask, Tensor) or mask.ndim != 2:
        return False
    # Without values, on the meta device, it is taken for causal: open_clip's text towers have such a mask or none.
    return mask.is_meta or torch.equal(mask, torch.full_like(mask, float("-inf")).triu_(1))


# ------------------------------------------------------------------------------------------------- the plain path


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
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.device = device
        self.dtype = dtype
        self.batch_tokens = batch_tokens
        self.tokens = 0
        self.padding = int(tokenizer([""])[0, -1])
        self.cuts = _masked_padding(model) == self.padding and self._may_be_cut()

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


def split_evenly(total: int, most: int) -> Iterator[slice]:
    """Slices of `total` items: as few as `most` items in each allow, with sizes that differ by at most one.

    >>> list(split_evenly(7, 3))
    [slice(0, 3, None), slice(3, 5, None), slice(5, 7, None)]
    """
    if not total:
        return
    parts = -(-total // max(1, most))
    size, remainder = divmod(total, parts)
    start = 0
    for i in range(parts):
        stop = start + size + (i < remainder)  # the first parts take one more each
        yield slice(start, stop)
        start = stop


def halving(compute: Callable[[slice], Tensor], part: slice) -> Tensor:
    """compute(part), (n, ...); if memory runs out, its two halves one after the other."""
    try:
        return compute(part)
    except torch.OutOfMemoryError:
        if part.stop - part.start == 1:
            raise
    # The error holds the memory of the failed pass, so the halves are computed outside of the handler.
    middle = (part.start + part.stop) // 2
    first = halving(compute, slice(part.start, middle))
    second = halving(compute, slice(middle, part.stop))
    return torch.cat([first, second])
