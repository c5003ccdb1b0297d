"""Soup-aware growth of word chains: a word is judged by what it does to the whole soup, not to its chain alone.

With S the sum of the finished members' text features and t those of the present chain, a word is accepted into the
chain where the mean log-likelihood of the labels

    L(c) = mean over images of log softmax_k(scale <x_i, c_k>)[y_i],    c = normalised S + t,

rises strictly; `scale` is fitted once, where the class name alone is likeliest (`fitted_scale`). Draws, patience and
speculative batches are those of Algorithm 2 (`wsoup.search.grow.chains`), with the result of the one-by-one loop to the
letter: every candidate's L is computed on its own. Source: this project.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from wsoup.core.draws import member_generator
from wsoup.core.scoring import normalize
from wsoup.search.grow.chains import draw_chain_words, grown_chain
from wsoup.search.grow.greedy import BATCHES, Judgement, Measure
from wsoup.soup.member import Member

SCALES = (1.0, 1000.0)
"""Where the class name makes no mistake the likeliest scale is infinite, where it is no better than chance 0."""
BISECTIONS = 32


def joint_soup(
    ranked: Sequence[str],
    *,
    seed: int,
    m: int,
    k0: int,
    k1: int,
    patience: int,
    max_words: int,
    features: Callable[[Sequence[str]], Tensor],
    measure: Measure,
    batches: tuple[int, int] = BATCHES,
) -> list[Member]:
    """m chains, each grown so that the soup of all chains up to it becomes likelier.

    Args:
        ranked: words by falling accuracy.
        seed: with the member's number it names each chain's draws, which are those of Algorithm 2.
        m, k0, k1, patience, max_words: as in params.yaml.
        features: texts -> (P, C, D) float32, L2-normalised.
        measure: `likely_on`.
        batches: see `wsoup.search.grow.chains.word_chain`.

    Returns:
        m members. Counts, of a member and in its trace, are of the soup up to there.
    """
    members: list[Member] = []
    total = torch.zeros(())
    for member in range(m):
        generator = member_generator(purpose="word_soup", seed=seed, member=member)
        first, candidates = draw_chain_words(ranked, k0=k0, k1=k1, patience=patience, generator=generator)
        made, added = joint_chain(
            first,
            candidates=candidates,
            total=total,
            features=features,
            measure=measure,
            max_words=max_words,
            batches=batches,
        )
        total = total + added
        members.append(made)
    return members


def joint_chain(
    first: str,
    *,
    candidates: Sequence[str],
    total: Tensor,
    features: Callable[[Sequence[str]], Tensor],
    measure: Measure,
    max_words: int,
    batches: tuple[int, int] = BATCHES,
) -> tuple[Member, Tensor]:
    """One chain beside the finished members, whose features sum to `total`: the member, and its features (C, D)."""

    def judge(texts: Sequence[str]) -> list[Judgement]:
        block = features(texts)  # (b, C, D)
        return list(zip(*measure(total + block), block, strict=True))

    member, (_, _, held) = grown_chain(first, candidates=candidates, judge=judge, max_words=max_words, batches=batches)
    return member, held


def likely_on(image_features: Tensor, labels: Tensor, *, scale: float) -> Measure:
    """Measure soups by the mean log-likelihood of the labels (N,) of images (N, D), and by their correct images.

    Each soup is scored on its own: what is beside it in a batch does not touch its last bit.
    """

    def measure(sums: Tensor) -> tuple[Sequence[float], Sequence[int]]:
        scored = [_log_likelihood(image_features @ centroid.T, labels, scale) for centroid in normalize(sums)]
        values, counts = zip(*scored, strict=True)
        return torch.stack(values).tolist(), torch.stack(counts).tolist()

    return measure


def _log_likelihood(scores: Tensor, labels: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Mean log softmax of the own class (float32, their mean float64), and the correct images; scores are (N, C)."""
    own = (scores * scale).log_softmax(dim=1).gather(1, labels[:, None])
    return own.double().mean(), (scores.argmax(dim=1) == labels).sum()


def fitted_scale(image_features: Tensor, labels: Tensor, class_features: Tensor) -> float:
    """The logit scale at which one classifier (C, D) makes the labels likeliest, within `SCALES`.

    L is concave in the scale: its slope, mean over images of own score minus expected score, falls. The root is
    bisected in float64, so that one more or less bit of a score moves it as little.
    """
    scores = (image_features @ class_features.T).double()
    own = scores.gather(1, labels[:, None])[:, 0]

    def slope(scale: float) -> float:
        expected = ((scores * scale).softmax(dim=1) * scores).sum(dim=1)
        return float((own - expected).mean())

    low, high = SCALES
    if slope(high) > 0:
        return high
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return high
