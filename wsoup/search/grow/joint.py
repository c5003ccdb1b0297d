"""Chains of words as in Algorithm 2, but a word is judged by its effect on the whole soup. Source: this project.

With S the sum of the text features of the finished members and t those of the present chain, a word is added if the
mean log-likelihood of the labels

    L(c) = mean over images of log softmax_k(scale <x_i, c_k>)[y_i],    c = normalised S + t,

rises strictly; `scale` maximises the likelihood of the bare class names (`fitted_scale`). Draws, patience and batches
are those of Algorithm 2; each candidate's L is computed on its own, so batches do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal

from wsoup.core.member import Member, Step
from wsoup.search.grow.kind import Growth, Judgement, Measure, judged_beside, rises

if TYPE_CHECKING:
    from torch import Tensor

    from wsoup.search.rank.meter import Meter
    from wsoup.search.rank.ranking import Ranked

SCALES = (1.0, 1000.0)
"""Bounds of `fitted_scale`: it would be infinite for a perfect classifier, and 0 for one no better than chance."""
BISECTIONS = 32
"""Halvings of that range, which leave an interval of 2e-7."""


class JointSoup(Growth):
    """Chains grown as in Algorithm 2, but by words that make the whole soup likelier."""

    kind: Literal["joint"]

    def members(self, ranked: Ranked, meter: Meter, *, part: int) -> list[Member]:
        """The whole soup."""
        (class_names,) = meter.source.text_blocks([""], period=True)
        scale = fitted_scale(*meter.images, class_names[0])
        measure = likely_on(*meter.images, scale=scale)
        draws = (self.draw(ranked.texts, member=i, seed=meter.seed) for i in range(self.m))
        return joint_soup(draws, features=meter.features, measure=measure, max_words=self.max_words)


def joint_soup(
    draws: Iterable[Sequence[str]],
    *,
    features: Callable[[Sequence[str]], Tensor],
    measure: Measure,
    max_words: int,
) -> list[Member]:
    """Chains, each grown to make the soup of all chains so far likelier.

    Args:
        draws: the words of each chain, the first one first, as of `Growth.draw`.
        features: texts -> (P, C, D) float32, L2-normalised.
        measure: `likely_on`.
        max_words: maximum length of a chain.

    Returns:
        A member for each draw. Their counts, also in traces, are of the soup up to that point.
    """
    members: list[Member] = []
    trace: list[Step] = []
    total: Tensor | int = 0

    def judge(some: Sequence[str]) -> Iterable[Judgement]:
        chain = [step.added for step in trace]
        longer = [" ".join([*chain, word]) for word in some]
        return judged_beside(total, features(longer), measure=measure)

    for words in draws:
        trace = []
        for index, judged in islice(rises(words, judge=judge), max_words):
            trace.append(Step(words[index], judged.n_correct))
        assert judged.features is not None
        total = total + judged.features
        text = " ".join(step.added for step in trace)
        members.append(Member(text, trace[-1].n_correct, trace=tuple(trace)))
    return members


def likely_on(image_features: Tensor, labels: Tensor, *, scale: float) -> Measure:
    """Measure soups by the mean log-likelihood of the labels (N,) of images (N, D), and count their correct images.

    Each soup is scored on its own, so that others in the batch do not affect its last bit.
    """
    import torch  # slow

    from wsoup.core.scoring import normalize

    def measure(sums: Tensor) -> tuple[Sequence[float], Sequence[int]]:
        values = []
        counts = []
        for centroid in normalize(sums):
            likelihood, n_correct = _log_likelihood(image_features @ centroid.T, labels, scale)
            values.append(likelihood)
            counts.append(n_correct)
        # Read at once, so that a GPU is waited for once.
        return torch.stack(values).tolist(), torch.stack(counts).tolist()

    return measure


def _log_likelihood(scores: Tensor, labels: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Mean log softmax of the label (float32, averaged in float64), and correct images; scores are (N, C)."""
    log_shares = (scores * scale).log_softmax(dim=1)
    own = log_shares.gather(1, labels[:, None])
    right = scores.argmax(dim=1) == labels
    return own.double().mean(), right.sum()


def fitted_scale(image_features: Tensor, labels: Tensor, class_features: Tensor) -> float:
    """The logit scale within `SCALES` that maximises the likelihood of the labels under one classifier (C, D).

    L is concave in the scale, and its slope, the mean of own score minus expected score, falls. Its root is bisected in
    float64, so that rounding of a score moves it as little.
    """
    scores = (image_features @ class_features.T).double()
    own = scores.gather(1, labels[:, None])[:, 0]

    def slope(scale: float) -> float:
        shares = (scores * scale).softmax(dim=1)
        expected = (shares * scores).sum(dim=1)
        return float((own - expected).mean())

    low, high = SCALES
    # Bisection needs a root between the bounds.
    if slope(high) > 0:
        return high
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if slope(middle) > 0:
            low = middle
        else:
            high = middle
    return high
