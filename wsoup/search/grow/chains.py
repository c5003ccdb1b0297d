"""Word soups: Algorithm 2 of arXiv 2311.13612, two controls for it, and soup-aware growth. Counts are passed in.

Algorithm 2 grows m independent chains of words. A word is added only if the integer count of correct images rises
strictly. Words are tried in speculative batches, as in `wsoup.search.grow.greedy`, with the result of the one-by-one
loop. Unlike the authors' pseudo-code, and like their text and code (Chris210634/word_soups,
preprocess/get_greedy_word_soup.py), the bar rises after an accepted word. Unlike their code, every draw has its own
generator, and ties rank by pool order.

`first_word` and `random_length_chain` are controls with the same draws: Algorithm 2 without growth, and chains of the
same lengths whose further words are random. Source: this project.

`joint_soup` judges a word by its effect on the whole soup rather than on its chain. With S the sum of the text features
of the finished members and t those of the present chain, a word is added if the mean log-likelihood of the labels

    L(c) = mean over images of log softmax_k(scale <x_i, c_k>)[y_i],    c = normalised S + t,

rises strictly; `scale` maximises the likelihood of the bare class names (`fitted_scale`). Draws, patience and batches
are those of Algorithm 2; each candidate's L is computed on its own, so batches do not matter. Source: this project.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from wsoup.core.draws import member_generator
from wsoup.core.scoring import normalize
from wsoup.search.grow.greedy import BATCHES, Judgement, Measure, next_rise
from wsoup.soup.member import Member, Step

Count = Callable[[Sequence[str]], Tensor | np.ndarray]
"""P texts, such as the chain ``"alpha beta"`` -> (P,) correct images of each alone."""
SCALES = (1.0, 1000.0)
"""Bounds of `fitted_scale`: it would be infinite for a perfect classifier, and 0 for one no better than chance."""
BISECTIONS = 32


def draw_chain_words(
    ranked: Sequence[str], *, member: int, seed: int, k0: int, k1: int, patience: int
) -> tuple[str, list[str]]:
    """Draw a first word from the top k0, and shuffle the top k1 and cut them to `patience`: (first, candidates).

    There must be at least k1 words, as `wsoup.search.grow.soups.candidates` ensures.
    """
    generator = member_generator(purpose="word_soup", seed=seed, member=member)
    first = ranked[int(generator.integers(k0))]
    return first, [ranked[i] for i in generator.permutation(k1)[:patience]]


def word_soup_member(
    ranked: Sequence[str],
    *,
    member: int,
    seed: int,
    k0: int,
    k1: int,
    patience: int,
    max_words: int,
    count: Count,
) -> Member:
    """Algorithm 2 for one member.

    Args:
        ranked: words by falling accuracy.
        member, seed: name this chain's generator, so a soup of 16 starts with the soup of 8.
        k0, k1, patience, max_words: as in params.yaml.
        count: counts correct images.
    """
    first, candidates = draw_chain_words(ranked, member=member, seed=seed, k0=k0, k1=k1, patience=patience)
    return word_chain(first, candidates=candidates, count=count, max_words=max_words)


def word_chain(
    first: str, *, candidates: Sequence[str], count: Count, max_words: int, batches: tuple[int, int] = BATCHES
) -> Member:
    """The inner loop of Algorithm 2: grow one chain from its first word.

    Args:
        first: the first word.
        candidates: words to try, each once, in this order.
        count: counts correct images.
        max_words: maximum length of the chain.
        batches: first and largest number of words that are tried together; affects speed only.
    """

    def judge(texts: Sequence[str]) -> list[Judgement]:
        return [(int(n_correct), int(n_correct)) for n_correct in count(texts)]

    return _grow(first, candidates=candidates, judge=judge, max_words=max_words, batches=batches)[0]


def _grow(
    first: str,
    *,
    candidates: Sequence[str],
    judge: Callable[[Sequence[str]], Iterable[Judgement]],
    max_words: int,
    batches: tuple[int, int],
) -> tuple[Member, Judgement]:
    """Grow a chain by every word that raises its judgement: the member, and its final judgement.

    Args:
        first, candidates, max_words, batches: as for `word_chain`.
        judge: whole chains -> (value that must rise, correct images, ...) of each.
    """
    chain, start = first, 0
    (judged,) = judge([first])
    trace = [Step(first, judged[1])]

    def judge_longer(tried: slice) -> Iterable[Judgement]:
        return judge([f"{chain} {word}" for word in candidates[tried]])

    while len(trace) < max_words:
        rise = next_rise(len(candidates), start=start, bar=judged[0], judge=judge_longer, batches=batches)
        if rise is None:
            break
        position, judged = rise
        chain, start = f"{chain} {candidates[position]}", position + 1
        trace.append(Step(candidates[position], judged[1]))
    return Member(text=chain, n_correct=judged[1], trace=tuple(trace)), judged


def first_word(ranked: Sequence[str], *, member: int, seed: int, k0: int) -> str:
    """The first word of Algorithm 2 for one member, any of the top k0; members may have the same one."""
    return ranked[int(member_generator(purpose="word_soup", seed=seed, member=member).integers(k0))]


def random_length_chain(grown: Member, *, ranked: Sequence[str], member: int, seed: int, k1: int) -> str:
    """The first word of a chain of Algorithm 2, followed by random words of the top k1 up to the same length.

    Args:
        grown: `word_soup_member` of the same member and seed.
        ranked, member, seed, k1: as for `word_soup_member`; the words have their own generator.
    """
    generator = member_generator(purpose="random_lengths", seed=seed, member=member)
    further = generator.permutation(k1)[: len(grown.trace) - 1]
    return " ".join([grown.trace[0].added, *(ranked[i] for i in further)])


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
    """m chains, each grown to make the soup of all chains so far likelier.

    Args:
        ranked: words by falling accuracy.
        seed: names the draws, together with the number of the member, as in Algorithm 2.
        m, k0, k1, patience, max_words: as in params.yaml.
        features: texts -> (P, C, D) float32, L2-normalised.
        measure: `likely_on`.
        batches: as for `word_chain`.

    Returns:
        m members. Their counts, also in traces, are of the soup up to that point.
    """
    members: list[Member] = []
    total = torch.zeros(())
    for member in range(m):
        first, candidates = draw_chain_words(ranked, member=member, seed=seed, k0=k0, k1=k1, patience=patience)
        grown, added = joint_chain(
            first,
            candidates=candidates,
            total=total,
            features=features,
            measure=measure,
            max_words=max_words,
            batches=batches,
        )
        total = total + added
        members.append(grown)
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
    """Grow one chain, given the sum `total` of the finished members' features: the member and its features (C, D)."""

    def judge(texts: Sequence[str]) -> list[Judgement]:
        block = features(texts)  # (b, C, D)
        return list(zip(*measure(total + block), block, strict=True))

    member, (_, _, added) = _grow(first, candidates=candidates, judge=judge, max_words=max_words, batches=batches)
    return member, added


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
