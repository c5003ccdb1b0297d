"""What a search costs, and the meter that keeps track of it.

Cost is in texts, tokens and FLOPs of the text tower, and computed from the texts alone. A text is encoded with every
class. Tokens are the minimum that must be computed: prefixes shared by texts of a search count once, and class prompts
not at all, since every kind of soup needs them; of templates every token counts. Unlike `PromptEncoder.tokens_encoded`,
which is slightly higher, a cost does not depend on batches, caches, restarts or workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.core.member import Cost
from wsoup.core.scoring import Scores
from wsoup.search.rank.source import Source
from wsoup.texts.tokens import Tokenizer
from wsoup.texts.trie import common_beginning


def cost_of(texts: Iterable[str], *, period: bool, source: Source) -> Cost:
    """The cost of encoding every class with each distinct text, once for all seeds."""
    text_encoder = source.text_encoder
    n_classes = len(source.class_names)
    distinct = set(texts)
    templates = sorted(text for text in distinct if prompts.is_template(text))
    unique = sorted({prompts.after_comma(text, period=period) for text in distinct.difference(templates)})
    n_texts = len(unique) + len(templates)
    n_prompts = n_texts * n_classes
    # A model that is not taken apart computes all positions of every prompt.
    if text_encoder.tower is None:
        return Cost(n_texts, n_prompts * len(text_encoder.tokenizer([""])[0]), None)
    n_tokens = _distinct_prefixes(unique, tokenizer=text_encoder.tokenizer) * n_classes
    filled = [prompts.prompt("", name, text) for text in templates for name in source.class_names]
    n_tokens += _distinct_prefixes(filled, tokenizer=text_encoder.tokenizer)
    return Cost(n_texts, n_tokens, text_encoder.tower.flops(n_tokens, reads=n_prompts))


def _distinct_prefixes(texts: Sequence[str], *, tokenizer: Tokenizer) -> int:
    """Tokens of texts, with their end token, of which equal beginnings count once.

    Causal attention: a token's state depends on what is before it, so equal prefixes are computed once.
    """
    empty, *rows = tokenizer(["", *texts])
    padding = empty[-1]
    n_start = int((empty != padding).sum()) - 1  # start tokens: all of the empty text's except its end token
    sequences = []
    for row in rows:
        end = int((row != padding).sum())
        sequences.append(row[n_start:end].tolist())
    sequences.sort()
    n_tokens = 0
    for before, sequence in pairwise([[], *sequences]):
        # In this order a sequence shares most with the one before it.
        n_tokens += len(sequence) - common_beginning(before, sequence)
    return n_tokens


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
