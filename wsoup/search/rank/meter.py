"""What a search costs, and the meter that keeps track of it.

Cost is in texts, tokens and FLOPs of the text tower, and computed from the texts alone. A text is encoded with every
class. Tokens are the minimum that must be computed: prefixes shared by texts of a search count once, and class prompts
not at all, since every kind of soup needs them. Unlike `PromptEncoder.tokens_encoded`, which is slightly higher, a cost
does not depend on batches, caches, restarts or workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.core.member import Cost
from wsoup.core.scoring import Scores
from wsoup.search.rank.source import Source


def cost_of(texts: Iterable[str], *, period: bool, source: Source) -> Cost:
    """The cost of encoding every class with each distinct text, once for all seeds."""
    text_encoder = source.text_encoder
    n_classes = len(source.class_names)
    unique = sorted({prompts.after_comma(text, period=period) for text in texts})
    n_prompts = len(unique) * n_classes
    empty, *rows = text_encoder.tokenizer(["", *unique])
    # A model that is not taken apart computes all positions of every prompt.
    if text_encoder.tower is None:
        return Cost(len(unique), n_prompts * len(empty), None)
    padding = empty[-1]
    n_start = int((empty != padding).sum()) - 1  # start tokens: all of the empty text's except its end token
    prefixes: set[tuple[int, ...]] = set()
    for row in rows:
        end = int((row != padding).sum())
        sequence = row[n_start:end].tolist()  # after the comma, with the end token
        # Causal attention: a token's state depends on what is before it, so equal prefixes are computed once.
        prefixes.update(tuple(sequence[:length]) for length in range(1, len(sequence) + 1))
    n_tokens = len(prefixes) * n_classes
    return Cost(len(unique), n_tokens, text_encoder.tower.flops(n_tokens, reads=n_prompts))


class Meter:
    """Text features and counts for one search with one seed, keeping track of the texts used.

    Attributes:
        images: features (N, D) and labels (N,) of the seed's few-shot images.
    """

    def __init__(self, source: Source, *, seed: int, period: bool) -> None:
        self.source = source
        self.seed = seed
        self.period = period
        self.images = source.images_of(seed)
        self._texts: set[str] = set()

    def blocks(self, texts: Sequence[str]) -> Iterator[Tensor]:
        """Features of texts with every class, in blocks (b, C, D); only consumed blocks count."""
        start = 0
        for block in self.source.text_blocks(texts, period=self.period):
            self._texts.update(texts[start : start + len(block)])
            start += len(block)
            yield block

    def features(self, texts: Sequence[str]) -> Tensor:
        """Features of P texts with every class: (P, C, D)."""
        return torch.cat(list(self.blocks(texts)))

    def count(self, texts: Sequence[str]) -> np.ndarray:
        """Correct images of the seed for each text alone: (P,) int64."""
        features, labels = self.images
        counts = []
        for block in self.blocks(texts):
            counts.append(Scores(features, block).right(labels).sum(dim=1))
        # Read at once, so that a GPU is waited for once.
        return torch.cat(counts).cpu().numpy()

    def cost(self) -> Cost:
        """The cost of all texts so far."""
        return cost_of(self._texts, period=self.period, source=self.source)
