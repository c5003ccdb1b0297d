"""What a search costs: texts, tokens and floating-point operations of the text tower, told from the texts alone.

A text is encoded with every class. Tokens are counted as they must be computed at least: what texts of one search begin
with in common comes once, the class prompts not at all, since every kind of soup has them. So a cost is a fact of the
search: it does not depend on batches, caches, restarts or workers, as `PromptEncoder.tokens_encoded` does, and that is
a little higher where a beginning could not be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.search.rank.source import Source
from wsoup.soup.member import Cost
from wsoup.texts.encoder import PromptEncoder

TEXTS_AT_ONCE = 4096


def cost_of(texts: Iterable[str], *, period: bool, source: Source) -> Cost:
    """The cost of encoding every class with each of these texts, equal ones once; for all seeds together."""
    classes, encoder = len(source.class_names), source.texts
    unique = sorted({prompts.after_comma(text, period=period) for text in texts})
    if not encoder.fast or encoder.tower is None:
        context = encoder.tokenizer([""]).shape[1]
        return Cost(len(unique), len(unique) * classes * context, None)
    nodes: set[tuple[int, ...]] = set()
    for start in range(0, len(unique), TEXTS_AT_ONCE):
        for tokens in _tokens(unique[start : start + TEXTS_AT_ONCE], encoder=encoder):
            nodes.update(tokens[:length] for length in range(1, len(tokens) + 1))
    n = len(nodes) * classes
    return Cost(len(unique), n, encoder.tower.flops(n, reads=len(unique) * classes))


def _tokens(endings: Sequence[str], *, encoder: PromptEncoder) -> Iterator[tuple[int, ...]]:
    """Tokens of what follows the comma, which belongs to the class prompt, with the token that ends a text."""
    empty, *rows = encoder.tokenizer(["", *endings])
    starts = int((empty != empty[-1]).sum()) - 1  # start tokens: all of the empty text's but the one that ends it
    for row in rows:
        yield tuple(row[starts : int((row != empty[-1]).sum())].tolist())


class Meter:
    """The source's texts for one search of one seed, noting what is asked for."""

    def __init__(self, source: Source, *, seed: int, period: bool) -> None:
        self.source, self.seed, self.period = source, seed, period
        self._texts: set[str] = set()

    def blocks(self, texts: Sequence[str]) -> Iterator[Tensor]:
        """Features of texts with every class, in blocks (b, C, D); only blocks that are taken are noted."""
        start = 0
        for block in self.source.text_blocks(texts, period=self.period):
            self._texts.update(texts[start : start + len(block)])
            start += len(block)
            yield block

    def features(self, texts: Sequence[str]) -> Tensor:
        """Features of a few texts with every class: (P, C, D)."""
        return torch.cat(list(self.blocks(texts)))

    def count(self, texts: Sequence[str]) -> np.ndarray:
        """Correct images of the seed for each text alone: (P,) int64."""
        self._texts.update(texts)
        return self.source.count(texts, seed=self.seed, period=self.period)

    def cost(self) -> Cost:
        """Of everything so far."""
        return cost_of(self._texts, period=self.period, source=self.source)
