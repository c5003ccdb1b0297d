"""Class centres and class weights of a pile of unlabelled images, re-estimated by expectation maximisation.

Every image's soft answer is p_ic ~ pi_c exp(s f_i.t_c + A s f_i.m_c), with t_c the class text and m_c the class's
centre among the images. Centres and weights follow from the answers, and the answers from them, a few times over:

    n_c = sum_i p_ic,   m_c = normalised (sum_i p_ic f_i + ANCHOR f_mean) / (n_c + ANCHOR),
    pi_c = (n_c + ANCHOR) / (N + C ANCHOR)

The texts stay in every answer as they are and anchor it, as TransCLIP's text term does (arXiv 2406.01837). A centre
moves away from the mean image by n_c / (n_c + ANCHOR), as StatA's statistics move from theirs (arXiv 2501.03729): a
class with few images, or none, has a centre that says nothing. Class weights are estimated and not assumed equal, and
drawn to equal ones where few images are seen. The result is linear in f: W = s T + A s M, b = log pi.
"""

from __future__ import annotations

from torch import Tensor

from wsoup.adapt import guard
from wsoup.adapt.adapted import Adapted, texts_alone
from wsoup.adapt.passes import Seen, look
from wsoup.core.scoring import normalize

KIND = "em"
CENTRES = 2.0
"""A: how much a centre counts beside its text."""
ANCHOR = 32.0
"""Images that a class must have for its centre and its weight to be half its own."""
ROUNDS = 10
SETTLED = 1e-3
"""Share of the answers; where no more change in a round, it ends."""


def em(features: Tensor, *, texts: Tensor, logit_scale: float) -> Adapted:
    """Adapt class texts to a pile of images, or leave them alone where the guard says so.

    Args:
        features: (N, D) L2-normalised; read in blocks, so it may be mapped from a file.
        texts: T (D, C), columns of length 1, on the CPU as features.
        logit_scale: s of the model: `model.logit_scale.exp()`. The guard relies on it.

    Returns:
        The adapted classifier, or the texts'. The order of images does not matter.
    """
    alone = texts_alone(texts, logit_scale=logit_scale, kind=KIND, note="")
    before = look(features, by=alone)
    why_not = guard.before(before)
    if why_not:
        return texts_alone(texts, logit_scale=logit_scale, kind=KIND, note=why_not)
    adapted, after = estimated(features, alone=alone, logit_scale=logit_scale, first=before)
    why_not = guard.after(before, after)
    if why_not:
        return texts_alone(texts, logit_scale=logit_scale, kind=KIND, note=why_not)
    return adapted


def estimated(features: Tensor, *, alone: Adapted, logit_scale: float, first: Seen) -> tuple[Adapted, Seen]:
    """The adapted classifier without a guard, and its answers.

    Args:
        features: (N, D).
        alone: the texts' own classifier.
        logit_scale: s.
        first: what the texts' answers add up to.
    """
    n, n_classes = len(first.answers), len(first.counts)
    mean, seen = first.mean, first
    for _ in range(ROUNDS):
        centres = normalize((seen.sums + ANCHOR * mean) / (seen.counts + ANCHOR)[:, None])  # (C, D)
        shares = (seen.counts + ANCHOR) / (n + n_classes * ANCHOR)
        classifier = alone.classifier + CENTRES * logit_scale * centres.T.float()
        adapted = Adapted(KIND, classifier, shares.log().float(), True, "")
        last, seen = seen, look(features, by=adapted)
        if float((last.answers != seen.answers).double().mean()) <= SETTLED:
            break
    return adapted, seen
