"""Every candidate of a pool, alone, on the source's few-shot images of all seeds: what a ranking is made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from wsoup.core.scoring import ImageSet, correct
from wsoup.search.rank.cost import Cost, cost_of
from wsoup.search.rank.source import Source
from wsoup.search.rank.statistics import CandidateStatistics, statistics

COLUMNS = ("n_correct", "alignment", "uniformity", "near_ties", "k2", "gain_se")
"""What is known of a scored candidate, as `CandidateStatistics` has it."""


def shards(texts: Sequence[str], *, size: int) -> list[Sequence[str]]:
    """Texts cut for scoring, in order: at most `size` together, and the empty one alone, which shares no beginning.

    >>> shards(["", "a", "b", "c"], size=2)
    [[''], ['a', 'b'], ['c']]
    """
    cut: list[Sequence[str]] = []
    start = 0
    for i in range(1, len(texts) + 1):
        if i == len(texts) or i - start == size or not texts[i] or not texts[i - 1]:
            cut.append(texts[start:i])
            start = i
    return cut


def right_by_name(source: Source, *, images: ImageSet, period: bool) -> Tensor:
    """Which images the class name alone gets right: (N,) bool."""
    (name_alone,) = source.text_blocks([""], period=period)
    return correct(images.image_features, images.labels, name_alone[0])


def scores(
    source: Source, texts: Sequence[str], *, images: ImageSet, baseline_right: Tensor, period: bool
) -> dict[str, np.ndarray]:
    """`COLUMNS` of every text, each (K, P).

    Args:
        source: whose classes the texts are appended to.
        texts: P candidates.
        images: `source.images()`, made once for many calls.
        baseline_right: `right_by_name`, also.
        period: whether texts carry the final period.
    """
    features = source.text_blocks(texts, period=period)
    blocks = [statistics(images, block, baseline_right=baseline_right) for block in features]
    return {name: _gather(blocks, name) for name in COLUMNS}


def pool_cost(source: Source, texts: Sequence[str], *, period: bool) -> Cost:
    """What scoring a pool takes, once for all seeds."""
    return cost_of(texts, period=period, classes=len(source.class_names), encoder=source.texts)


def _gather(blocks: list[list[CandidateStatistics]], name: str) -> np.ndarray:
    """One column of all seeds from the results of consecutive blocks: (K, P)."""
    return np.stack(
        [np.concatenate([block[k].column(name).cpu().numpy() for block in blocks]) for k in range(len(blocks[0]))]
    )
