"""The two kinds of adaptation to a pile of unlabelled images, and the guard that keeps the zero-shot classifier.

`em` re-estimates class centres and class weights by expectation maximisation. An image's soft prediction is

    p_ic ~ pi_c exp(s (f_i - OFF f_mean).t_c + A s f_i.m_c),

t_c being the class text, f_mean the mean image and m_c the class's centre among the images. Starting from the texts
alone, centres and weights follow from the predictions and the predictions from them, for a few rounds:

    n_c = sum_i p_ic,   m_c = normalised (sum_i p_ic f_i + ANCHOR f_mean) / (n_c + ANCHOR),
    pi_c = (n_c + ANCHOR) / (N + C ANCHOR)

The texts anchor every prediction, as TransCLIP's text term does (arXiv 2406.01837). A centre moves away from the mean
image by n_c / (n_c + ANCHOR), as StatA's statistics move from theirs (arXiv 2501.03729), so a class with few images has
an uninformative centre. Class weights are estimated, not assumed equal, and shrunk towards equal for small piles. A
text that is close to the mean image may favour all images, or its class may be frequent: OFF = 1/2 of the mean image is
subtracted, splitting the difference. The result is linear in f: W = s T + A s M, b = log pi - OFF s T.f_mean.

`center` subtracts all of the mean image and nothing else: s (f - f_mean).t_c. That removes a text's preference for the
whole pile, and is right only if classes are about equally frequent; otherwise the mean image resembles some classes.

The guard decides without a label. Adaptation hurts where the texts know almost nothing about the images, so that
clusters get wrong names; where few of the classes occur, so that true classes are split among names; and where it
overturns confident predictions. Where it works it predicts fewer classes than the texts did, or nearly all of them. Its
limits come from labelled photographs (see docs/notes/heads.md) and are the same for every pile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from wsoup.adaptation.adapted import Adapted, Statistics, predict_softly, zero_shot_classifier
from wsoup.base.errors import DataError, MismatchError, ParamsError, shown_value
from wsoup.core.scoring import normalize

OFF = 0.5
"""Share of the mean image subtracted before the texts see an image."""
CENTRES = 2.0
"""A: weight of a class's centre relative to its text."""
ANCHOR = 32.0
"""Images at which a class's centre and weight are half its own."""
ROUNDS = 10
SETTLED = 1e-3
"""EM stops when no more than this share of predictions changes in a round."""
INFORMATION = 0.1
"""Smallest information of the texts' predictions. Sketches at chance have 0.08, photographs 0.4."""
OVERTURNED = 2 / 3
"""Largest share of predictions that may change, times 1 - information: confident texts may be overturned less."""
SPREAD = 0.8
"""Effective classes, as a share of C, from which predictions may spread over more classes than the texts'."""
CLASSES = 0.9
"""Fewest effective classes, as a share of C, for `center`."""


def adapt(features: Tensor, *, texts: Tensor, logit_scale: float, kind: str) -> Adapted:
    """A classifier adapted to one pile of unlabelled images, or the zero-shot one; the order of images is irrelevant.

    Args:
        features: (N, D) L2-normalised, N >= 1; read in blocks, so it may be memory-mapped.
        texts: (D, C) columns of length 1, C >= 2, on the CPU like the features.
        logit_scale: s of the model, above 0: `model.logit_scale.exp()`. The guard relies on it.
        kind: of `KINDS`.

    Raises:
        DataError: no images, or fewer than two classes.
        MismatchError: texts and images of different sizes.
        ParamsError: unknown kind, or a logit scale that is not positive and finite.
    """
    zero_shot = checked(features, texts=texts, logit_scale=logit_scale, kind=kind)
    first = predict_softly(features, by=zero_shot)
    if rejection := reject_texts(first[0]):
        return replace(zero_shot, note=rejection)
    return KINDS[kind](estimate(features, zero_shot=zero_shot, logit_scale=logit_scale, first=first))


def checked(features: Tensor, *, texts: Tensor, logit_scale: float, kind: str) -> Adapted:
    """The zero-shot classifier, after checking the arguments of `adapt`."""
    if kind not in KINDS:
        raise ParamsError(f"kind is {shown_value(kind)}; expected one of {', '.join(KINDS)}")
    if not 0 < logit_scale < float("inf"):
        raise ParamsError(f"logit_scale is {logit_scale}; expected a number above 0, such as model.logit_scale.exp()")
    if features.dim() != 2 or not len(features):
        raise DataError(f"features has shape {tuple(features.shape)}; expected (N, D), one row for each image")
    if texts.dim() != 2 or texts.shape[0] != features.shape[1]:
        expected = f"({features.shape[1]}, C)"
        raise MismatchError(f"class texts have shape {tuple(texts.shape)}; expected {expected}, features by classes")
    if texts.shape[1] < 2:
        raise DataError("adaptation needs at least two classes")
    return zero_shot_classifier(texts, logit_scale=logit_scale, kind=kind)


@dataclass(frozen=True)
class Estimate:
    """The result of EM, before the guard decides whether to use it.

    Attributes:
        zero_shot: the texts' own classifier.
        before: statistics of its predictions.
        adapted: the classifier of texts, centres and class weights.
        after: statistics of its predictions.
        n_unchanged: images that both classify alike.
    """

    zero_shot: Adapted
    before: Statistics
    adapted: Adapted
    after: Statistics
    n_unchanged: float

    @property
    def rejection(self) -> str:
        """Why not to use it, or ""."""
        return reject_adapted(self.before, self.after, unchanged=self.n_unchanged / self.before.n)

    def __mul__(self, factor: float) -> Estimate:
        """The same images, counted `factor` times."""
        before, after = self.before * factor, self.after * factor
        return replace(self, before=before, after=after, n_unchanged=self.n_unchanged * factor)


def estimate(
    features: Tensor,
    *,
    zero_shot: Adapted,
    logit_scale: float,
    first: tuple[Statistics, Tensor],
    earlier: Estimate | None = None,
    rounds: int = ROUNDS,
    settled: float = SETTLED,
) -> Estimate:
    """Run EM on images, and on earlier ones whose predictions are fixed.

    Args:
        features: (N, D).
        zero_shot: the texts' own classifier.
        logit_scale: s.
        first: `predict_softly` of these images by the texts.
        earlier: of the images before these; only its statistics are used.
        rounds: largest number of rounds.
        settled: stop when no more than this share of predictions changes.
    """
    before, zero_shot_predictions = first
    if earlier is not None:
        before = earlier.before + before
    n, n_classes, mean = before.n, len(before.counts), before.mean
    off = OFF * (mean.float() @ zero_shot.classifier)
    new, predictions = predict_softly(features, by=earlier.adapted if earlier else replace(zero_shot, bias=-off))
    for _ in range(rounds):
        pile = new if earlier is None else earlier.after + new
        centres = normalize(pile.sums + ANCHOR * mean.float())  # (C, D); dividing by n_c + ANCHOR changes no direction
        weights = (pile.soft_counts + ANCHOR) / (n + n_classes * ANCHOR)
        classifier = torch.add(zero_shot.classifier, centres.T, alpha=CENTRES * logit_scale)
        adapted = Adapted("em", classifier, weights.log().float() - off, True, "")
        last, (new, predictions) = predictions, predict_softly(features, by=adapted)
        if float((last != predictions).double().mean()) <= settled:
            break
    n_unchanged = int((predictions == zero_shot_predictions).sum())
    if earlier is None:
        return Estimate(zero_shot, before, adapted, new, n_unchanged)
    return Estimate(zero_shot, before, adapted, earlier.after + new, earlier.n_unchanged + n_unchanged)


def em(estimate: Estimate) -> Adapted:
    """The adapted classifier, or the zero-shot one if the guard rejects it."""
    return replace(estimate.zero_shot, note=estimate.rejection) if estimate.rejection else estimate.adapted


def center(estimate: Estimate) -> Adapted:
    """The zero-shot classifier of images minus their mean, or itself if the guard rejects that."""
    zero_shot, rejection = estimate.zero_shot, estimate.rejection or reject_mean(estimate.after)
    if rejection:
        return replace(zero_shot, note=rejection)
    return Adapted("center", zero_shot.classifier, -(estimate.before.mean.float() @ zero_shot.classifier), True, "")


KINDS = {"em": em, "center": center}
"""By the name in params.yaml: what turns an estimate into a classifier."""


def reject_texts(texts: Statistics) -> str:
    """Why the zero-shot predictions are no basis for adaptation, or ""."""
    if texts.information < INFORMATION:
        return (
            f"class texts barely tell these images apart (information {texts.information:.2f}, adaptation needs "
            f"{INFORMATION:.2f}): kept the zero-shot classifier"
        )
    return ""


def reject_adapted(texts: Statistics, adapted: Statistics, *, unchanged: float) -> str:
    """Why not to trust adapted predictions, or "".

    Args:
        texts: of the zero-shot predictions.
        adapted: of the same images, by centres and weights.
        unchanged: share of the images predicted alike.
    """
    changed, most = 1 - unchanged, OVERTURNED * (1 - texts.information)
    if changed > most:
        return (
            f"adaptation would change {100 * changed:.0f} % of the predictions, more than the {100 * most:.0f} % "
            f"allowed for texts of information {texts.information:.2f}: kept the zero-shot classifier"
        )
    if texts.effective_classes < adapted.effective_classes < SPREAD:
        return (
            f"adaptation would spread predictions over more classes ({adapted.effective_classes:.2f} of all, "
            f"effective; zero-shot {texts.effective_classes:.2f}), but not nearly all: kept the zero-shot classifier"
        )
    return ""


def reject_mean(adapted: Statistics) -> str:
    """Why not to subtract the mean image (some classes are rare or absent), or ""."""
    if adapted.effective_classes < CLASSES:
        return (
            f"classes are not equally frequent ({adapted.effective_classes:.2f} of all, effective; center needs "
            f"{CLASSES:.2f}), so the mean image resembles some of them: kept the zero-shot classifier"
        )
    return ""
