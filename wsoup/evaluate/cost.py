"""FLOPs of encoding texts, whichever way a text tower is gone through."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder


class TextFlops:
    """FLOPs of what a `PromptEncoder` encoded since this was made: counted where it shares beginnings, else by tokens.

    Args:
        texts: counts its tokens, and where it can its FLOPs.
        encoder: its model.
        prompt: one that the model encodes; a learnt prompt takes the place of its first tokens.
    """

    def __init__(self, texts: PromptEncoder, *, encoder: Encoder, prompt: str) -> None:
        self.texts, self.encoder, self.prompt = texts, encoder, prompt
        self._flops, self._tokens = texts.flops, texts.tokens_encoded

    def done(self) -> float:
        """Multiplications and additions in matrix products."""
        if self.texts.way == "fast":
            return float(self.texts.flops - self._flops)
        apart = PromptEncoder.of(self.encoder)  # `texts` goes on counting what the stage encodes
        return float(flops_per_token(apart, prompt=self.prompt) * (self.texts.tokens_encoded - self._tokens))


def flops_per_token(texts: PromptEncoder, *, prompt: str) -> int:
    """Of one token of a prompt, for towers that share no beginnings; 0 for the others, which count themselves."""
    if texts.way == "fast":
        return 0
    before = texts.tokens_encoded
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        texts.encode([prompt])
    return counter.get_total_flops() // max(1, texts.tokens_encoded - before)
