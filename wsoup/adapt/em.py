"""Class centres and class weights of a pile of unlabelled images, re-estimated by expectation maximisation.

Every image's soft answer is p_ic ~ pi_c exp(s (f_i - OFF f_mean).t_c + A s f_i.m_c), with t_c the class text, f_mean
the mean image and m_c the class's centre among the images. Centres and weights follow from the answers, and the answers
from them, a few times over, the first ones from the texts alone:

    n_c = sum_i p_ic,   m_c = normalised (sum_i p_ic f_i + ANCHOR f_mean) / (n_c + ANCHOR),
    pi_c = (n_c + ANCHOR) / (N + C ANCHOR)

A text that likes the mean image more than others do may like all images, or its class may be there more often: half is
put down to each, so that half of the mean image is taken off the texts (`wsoup.adapt.center` takes off all of it).

The texts stay in every answer as they are and anchor it, as TransCLIP's text term does (arXiv 2406.01837). A centre
moves away from the mean image by n_c / (n_c + ANCHOR), as StatA's statistics move from theirs (arXiv 2501.03729): a
class with few images, or none, has a centre that says nothing. Class weights are estimated and not assumed equal, and
drawn to equal ones where few images are seen. The result is linear in f: W = s T + A s M, b = log pi - OFF s T.f_mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from wsoup.adapt import guard
from wsoup.adapt.adapted import Adapted
from wsoup.adapt.passes import Seen, look
from wsoup.core.scoring import normalize

KIND = "em"
OFF = 0.5
"""How much of the mean image is taken off the texts."""
CENTRES = 2.0
"""A: how much a centre counts beside its text."""
ANCHOR = 32.0
"""Images that a class must have for its centre and its weight to be half its own."""
ROUNDS = 10
SETTLED = 1e-3
"""Share of the answers; where no more change in a round, it ends."""


@dataclass(frozen=True)
class Estimate:
    """What images say, before it is decided whether to believe it.

    Attributes:
        alone: the texts' own classifier.
        before: what its answers add up to.
        adapted: the classifier of centres and weights; texts, centres and log weights are all in it.
        after: what its answers add up to.
        stays: how many images have the same answer from both.
    """

    alone: Adapted
    before: Seen
    adapted: Adapted
    after: Seen
    stays: float

    @property
    def why_not(self) -> str:
        """What speaks against believing it, "" where nothing does."""
        return guard.after(self.before, self.after, stays=self.stays / self.before.n)

    def __mul__(self, factor: float) -> Estimate:
        """As if there were so many times as many images of the same sort."""
        before, after = self.before * factor, self.after * factor
        return replace(self, before=before, after=after, stays=self.stays * factor)


def em(estimate: Estimate) -> Adapted:
    """The adapted classifier, or the texts' where it would turn too much."""
    return replace(estimate.alone, note=estimate.why_not) if estimate.why_not else estimate.adapted


def estimated(
    features: Tensor,
    *,
    alone: Adapted,
    logit_scale: float,
    first: tuple[Seen, Tensor],
    earlier: Estimate | None = None,
    rounds: int = ROUNDS,
    settled: float = SETTLED,
) -> Estimate:
    """Centres and weights of images, and of those before them, whose own answers stay as they were.

    Args:
        features: (N, D).
        alone: the texts' own classifier.
        logit_scale: s.
        first: what `look` has of these images by the texts.
        earlier: of the images before these; only its sums are read.
        rounds: of re-estimation, at most.
        settled: share of answers that changed in a round, with which it was the last.
    """
    before, texts_answers = first
    if earlier is not None:
        before = earlier.before + before
    n, n_classes, mean = before.n, len(before.counts), before.mean
    off = OFF * (mean.float() @ alone.classifier)
    seen, answers = look(features, by=earlier.adapted if earlier else replace(alone, bias=-off))
    for _ in range(rounds):
        whole = seen if earlier is None else earlier.after + seen
        centres = normalize(whole.sums + ANCHOR * mean.float())  # (C, D); of length 1, whatever they are divided by
        shares = (whole.counts + ANCHOR) / (n + n_classes * ANCHOR)
        classifier = torch.add(alone.classifier, centres.T, alpha=CENTRES * logit_scale)
        adapted = Adapted(KIND, classifier, shares.log().float() - off, True, "")
        last, (seen, answers) = answers, look(features, by=adapted)
        if float((last != answers).double().mean()) <= settled:
            break
    stays = int((answers == texts_answers).sum())
    if earlier is None:
        return Estimate(alone, before, adapted, seen, stays)
    return Estimate(alone, before, adapted, earlier.after + seen, earlier.stays + stays)
