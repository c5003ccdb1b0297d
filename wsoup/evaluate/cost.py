"""FLOPs of a text tower that shares no beginnings, by its tokens."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from wsoup.texts.encoder import PromptEncoder
from wsoup.towers import Encoder


class TextFlops:
    """FLOPs of what a `PromptEncoder` encoded since this was made: counted where it shares beginnings, else by tokens.

    Args:
        texts: counts its tokens, and where it can its FLOPs.
        encoder: its model.
    """

    def __init__(self, texts: PromptEncoder, *, encoder: Encoder) -> None:
        self.texts, self.encoder = texts, encoder
        self._flops, self._tokens = texts.flops, texts.tokens_encoded

    def done(self) -> float:
        """Multiplications and additions in matrix products."""
        if self.texts.way == "fast":
            return float(self.texts.flops - self._flops)
        return float(flops_per_token(self.encoder) * (self.texts.tokens_encoded - self._tokens))


def flops_per_token(encoder: Encoder) -> int:
    """Of one token in a whole context through `encode_text`."""
    tokens = encoder.tokenizer(["a"]).to(encoder.device)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        encoder.model.encode_text(tokens)  # type: ignore[operator]
    return counter.get_total_flops() // tokens.numel()
