"""A scored pool, ranked by falling count on one seed: the start of every kind of soup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wsoup.base.errors import MismatchError
from wsoup.core.member import Cost, Member, Step
from wsoup.disk import store


@dataclass(frozen=True)
class Ranked:
    """Candidates by falling count of correct images on one seed, ties in pool order, without "".

    Attributes:
        texts: P candidates.
        n_correct: (P,) int64, images of the seed that each gets right alone.
        log_likelihood: (P,) float64, k2 of `wsoup.search.rank.statistics`; NaN if no kind of soup is to read it.
        period: whether they have the final period in ranking and search.
        cost: cost of scoring the pool, which is the same for one seed and for all together.
    """

    texts: list[str]
    n_correct: np.ndarray
    log_likelihood: np.ndarray
    period: bool
    cost: Cost

    def cut(self, size: int) -> Ranked:
        """The first `size` candidates."""
        texts = self.texts[:size]
        n_correct = self.n_correct[:size]
        return Ranked(texts, n_correct, self.log_likelihood[:size], self.period, self.cost)

    def singles(self, indices: Sequence[int]) -> list[Member]:
        """Members of one text each; the trace is the count in the ranking."""
        steps = [Step(self.texts[i], int(self.n_correct[i])) for i in indices]
        return [Member(step.added, trace=(step,)) for step in steps]


def rank(n_correct: Sequence[int] | np.ndarray) -> np.ndarray:
    """Indices by falling count; ties keep pool order. (P,) -> (P,) int64.

    >>> rank([3, 5, 5, 1]).tolist()
    [1, 2, 0, 3]
    """
    return np.argsort(-np.asarray(n_correct, dtype=np.int64), kind="stable")


def ranked(texts: list[str], *, n_correct: np.ndarray, log_likelihood: np.ndarray, period: bool, cost: Cost) -> Ranked:
    """Rank candidates, given in pool order with counts and likelihoods (P,); see `Ranked`."""
    # "" is the class name alone: scored beside the candidates, but not one of them.
    candidates = np.flatnonzero([bool(text) for text in texts])
    order = candidates[rank(n_correct[candidates])]
    return Ranked([texts[i] for i in order], n_correct[order], log_likelihood[order], period, cost)


def read_ranked(scores: Path, *, seed: int, encoder_id: Mapping[str, object]) -> Ranked:
    """Rank a scored pool on one seed; `encoder_id` is the one that the scores must be of.

    Raises:
        MissingError, MismatchError: no scores, scores of another encoder or without this seed.
    """
    table = store.read_table(scores, columns=["text", "seed", "n_correct", "k2"])
    about = store.table_attributes(scores)
    store.check_encoder(about["encoder"], expected=encoder_id, where=scores)
    texts = table["text"].to_pylist()
    rows = np.flatnonzero(np.asarray(table["seed"]) == seed)
    texts_of_seed = [texts[i] for i in rows]
    if not any(texts_of_seed):
        raise MismatchError(f"{scores} holds no scores of seed {seed}; run `dvc repro` to score it")
    n_correct = np.asarray(table["n_correct"])
    log_likelihood = np.asarray(table["k2"])
    return ranked(
        texts_of_seed,
        n_correct=n_correct[rows],
        log_likelihood=log_likelihood[rows],
        period=about["period"],
        cost=Cost(**about["cost"]),
    )
