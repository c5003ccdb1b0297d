"""Word soups: Algorithm 2 of arXiv 2311.13612, and soup-aware growth. Counts are passed in.

Algorithm 2 grows m independent chains of words. A word is added only if the integer count of correct images rises
strictly. Words are tried in speculative batches, as in `wsoup.search.grow.greedy`, with the result of the one-by-one
loop. Unlike the authors' pseudo-code, and like their text and code (Chris210634/word_soups,
preprocess/get_greedy_word_soup.py), the bar rises after an accepted word. Unlike their code, every draw has its own
generator, and ties rank by pool order.

`joint_soup` judges a word by its effect on the whole soup rather than on its chain. With S the sum of the text features
of the finished members and t those of the present chain, a word is added if the mean log-likelihood of the labels

    L(c) = mean over images of log softmax_k(scale <x_i, c_k>)[y_i],    c = normalised S + t,

rises strictly; `scale` maximises the likelihood of the bare class names (`fitted_scale`). Draws, patience and batches
are those of Algorithm 2; each candidate's L is computed on its own, so batches do not matter. Source: this project.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from wsoup.core.draws import member_generator
from wsoup.core.scoring import normalize
from wsoup.search.grow.greedy import BATCHES, Judgement, Measure, judged_beside, next_rise
from wsoup.soup.member import Member, Step

Count = Callable[[Sequence[str]], Tensor | np.ndarray]
"""P texts, such as the chain ``"alpha beta"`` -> (P,) correct images of each alone."""
SCALES = (1.0, 1000.0)
"""Bounds of `fitted_scale`: it would be infinite for a perfect classifier, and 0 for one no better than chance."""
BISECTIONS = 32


class Growth(Protocol):
    """Where the words of chains come from, in the paper's symbols, as in params.yaml."""

    k0: int
    k1: int
    patience: int


def draw_chain_words(ranked: Sequence[str], growth: Growth, *, member: int, seed: int) -> tuple[str, list[str]]:
    """Draw a first word from the top k0, and shuffle the top k1 and cut them to `patience`: (first, candidates).

    There must be at least k1 words. Every member has its own generator, so a soup of 16 starts with the soup of 8.
    """
    generator = member_generator(purpose="word_soup", seed=seed, member=member)
    first = ranked[int(generator.integers(growth.k0))]
    return first, [ranked[i] for i in generator.permutation(growth.k1)[: growth.patience]]


def counted_alone(count: Count) -> Callable[[Sequence[str]], Iterable[Judgement]]:
    """Judge chains as Algorithm 2 does, by their own correct images."""
    return lambda texts: [Judgement(int(n_correct), int(n_correct)) for n_correct in count(texts)]


def grow_chain(
    words: tuple[str, Sequence[str]],
    *,
    judge: Callable[[Sequence[str]], Iterable[Judgement]],
    max_words: int,
    batches: tuple[int, int] = BATCHES,
) -> tuple[Member, Judgement]:
    """The inner loop of Algorithm 2: grow one chain by every word that raises its judgement.

    Args:
        words: the first word, and the words to try, each once, in this order.
        judge: whole chains -> their judgements.
        max_words: maximum length of the chain.
        batches: first and largest number of words that are tried together; affects speed only.

    Returns:
        The member, and its final judgement.
    """
    chain, candidates = words
    (judged,) = judge([chain])
    trace = [Step(chain, judged.n_correct)]
    while len(trace) < max_words:
        longer = [f"{chain} {word}" for word in candidates]
        rise = next_rise(longer, bar=judged.value, judge=judge, batches=batches)
        if rise is None:
            break
        position, judged = rise
        trace.append(Step(candidates[position], judged.n_correct))
        chain, candidates = longer[position], candidates[position + 1 :]
    return Member(text=chain, n_correct=judged.n_correct, trace=tuple(trace)), judged


def joint_soup(
    draws: Iterable[tuple[str, Sequence[str]]],
    *,
    features: Callable[[Sequence[str]], Tensor],
    measure: Measure,
    max_words: int,
    batches: tuple[int, int] = BATCHES,
) -> list[Member]:
    """Chains, each grown to make the soup of all chains so far likelier.

    Args:
        draws: the words of each chain, as of `draw_chain_words`.
        features: texts -> (P, C, D) float32, L2-normalised.
        measure: `likely_on`.
        max_words, batches: as for `grow_chain`.

    Returns:
        A member for each draw. Their counts, also in traces, are of the soup up to that point.
    """
    members: list[Member] = []
    total = torch.zeros(())
    for words in draws:

        def judge(texts: Sequence[str], finished: Tensor = total) -> Iterable[Judgement]:
            return judged_beside(finished, features(texts), measure=measure)

        member, judged = grow_chain(words, judge=judge, max_words=max_words, batches=batches)
        assert judged.features is not None
        total = total + judged.features
        members.append(member)
    return members


def likely_on(image_features: Tensor, labels: Tensor, *, scale: float) -> Measure:
    """Measure soups by the mean log-likelihood of the labels (N,) of images (N, D), and count their correct images.

    Each soup is scored on its own, so that others in the batch do not affect its last bit.
    """

    def measure(sums: Tensor) -> tuple[Sequence[float], Sequence[int]]:
        scored = [_log_likelihood(image_features @ centroid.T, labels, scale) for centroid in normalize(sums)]
        values, counts = zip(*scored, strict=True)
        return torch.stack(values).tolist(), torch.stack(counts).tolist()

    return measure


def _log_likelihood(scores: Tensor, labels: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Mean log softmax of the label (float32, averaged in float64), and correct images; scores are (N, C)."""
    own = (scores * scale).log_softmax(dim=1).gather(1, labels[:, None])
    return own.double().mean(), (scores.argmax(dim=1) == labels).sum()


def fitted_scale(image_features: Tensor, labels: Tensor, class_features: Tensor) -> float:
    """The logit scale within `SCALES` that maximises the likelihood of the labels under one classifier (C, D).

    L is concave in the scale, and its slope, the mean of own score minus expected score, falls. Its root is bisected in
    float64, so that rounding of a score moves it as little.
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
