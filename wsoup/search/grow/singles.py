"""Soups of single texts, with no search beyond the ranking. Source: this project.

`top` takes the m best; `sample` takes any m of the top k1, the control that every selection must beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from wsoup.core.draws import member_generator
from wsoup.core.errors import PoolError
from wsoup.search.rank.ranking import count_and_likelihood


def top(
    texts: Sequence[str],
    *,
    n_correct: np.ndarray,
    log_likelihood: np.ndarray,
    m: int,
    k1: int,
    rank_by: Literal["count", "count_k2"],
) -> list[str]:
    """The m best single texts.

    With ``count_k2`` by z(n_correct) + z(k2) among the top k1 by count, where z(x) = (x - mean x) / std x over these
    k1, and 0 where all are equal: a count over few images is coarse, and k2 says how surely the images were right.

    Args:
        texts: by falling count.
        n_correct: (P,) their counts.
        log_likelihood: (P,) k2 (`wsoup.search.rank.statistics`).
        m: members, no more than `k1`.
        k1: texts that are looked at.
        rank_by: ``count``, or ``count_k2``. Ties keep the order of `texts`.
    """
    if rank_by == "count":
        return list(texts[:m])
    value = count_and_likelihood(n_correct[:k1], log_likelihood[:k1])
    return [texts[i] for i in np.argsort(-value, kind="stable")[:m]]


def sample(texts: Sequence[str], *, m: int, seed: int) -> list[str]:
    """m of the texts, drawn without repetition; a draw of 16 begins with the draw of 8.

    Raises:
        PoolError: fewer than m texts.
    """
    if len(texts) < m:
        raise PoolError(f"a sample of {m} was asked of {len(texts)} texts; lower m or give more texts")
    order = member_generator(purpose="sample", seed=seed, member=0).permutation(len(texts))
    return [texts[i] for i in order[:m]]
