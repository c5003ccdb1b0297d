"""Estimation of a classifier from class texts and a pile of unlabelled images.

Class centres and class weights are re-estimated by expectation maximisation. An image's soft prediction is

    p_ic ~ pi_c exp(k s f_i.t_c - a s |f_i - m_c|^2 / 2),

t_c being the class text, m_c the class's centre among the images and s the model's logit scale. Starting from the texts
alone, centres and weights follow from the predictions and the predictions from them, for a few rounds:

    n_c = sum_i p_ic,   m_c = (sum_i p_ic f_i + h f_mean) / (n_c + h),   pi_c = (n_c + h) / (N + C h)

The texts anchor every prediction, as TransCLIP's text term does (arXiv 2406.01837). They count for more the more they
know: k is their information on these images times `SHARPNESS`, which calibrates texts of any strength. A centre moves
away from the mean image by n_c / (n_c + h), as StatA's statistics move from theirs (arXiv 2501.03729), so a class
with few images has an uninformative centre. Class weights are estimated, not assumed equal, and shrunk towards equal
for small piles. Distances from centres do not change when a constant is added to all images, which is how CLIP's lie.
`Trust` has a and h. The result is linear in f: W = k s T + a s M, b = log pi - a s |M|^2 / 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.special import entr

from wsoup.base.arguments import usual_torch
from wsoup.base.arrays import unit_rows

LOGITS_PER_BLOCK = 1 << 24
"""Logits in memory at a time (64 MiB in float32)."""
SHARPNESS = 2.6
"""The scale that calibrates texts, relative to the model's and to their information."""
ROUNDS = 10
SETTLED = 1e-3
"""EM stops when no more than this share of predictions changes in a round."""


@dataclass(frozen=True)
class Trust:
    """How much the groups of a pile count.

    Attributes:
        centres: a, the weight of a class's centre relative to its text.
        anchor: h, images at which a class's centre and weight are half its own.
    """

    centres: float
    anchor: float


BOLD = Trust(centres=2.0, anchor=32.0)
CAUTIOUS = Trust(centres=1.0, anchor=8.0)


@dataclass(frozen=True, repr=False)
class Adapted:
    """logits = f W + b: adapted to a pile, or the zero-shot classifier where the guard kept it.

    The bias belongs to features f of length 1. Others are normalised, with a warning, as by `wsoup.adapt`.

    Attributes:
        classifier: W (D, C) float32, including the logit scale.
        bias: b (C,) float32.
        adapted: whether it differs from the zero-shot classifier.
        note: one line: how many images get another class, and if few or none, why, with the numbers that decided.
    """

    classifier: Tensor
    bias: Tensor
    adapted: bool
    note: str

    def __repr__(self) -> str:
        if self.adapted:
            return f"<adapted classifier, {len(self.bias)} classes: {self.note}>"
        return f"<zero-shot classifier, {len(self.bias)} classes: {self.note}>"

    @usual_torch()
    def logits(self, features: object) -> Tensor:
        """(N, D) L2-normalised, torch or NumPy -> (N, C) float32; MismatchError if D differs."""
        return self.logits_of(self._checked(features))

    def predict_proba(self, features: object) -> Tensor:
        """(N, D) -> (N, C) float32, each row summing to 1; not calibrated."""
        return self.logits(features).softmax(dim=1)

    @usual_torch()
    def predict(self, features: object) -> Tensor:
        """(N, D) -> (N,) int64, in blocks; ties go to the lowest label."""
        return self.labels_of(self._checked(features))

    def logits_of(self, features: Tensor) -> Tensor:
        """`logits` of float32 features that were checked before, so that a block of them is not checked again."""
        return features @ self.classifier + self.bias

    def labels_of(self, features: Tensor) -> Tensor:
        """`predict` of features that were checked before, and may be memory-mapped."""
        answers = [self.logits_of(block).argmax(dim=1) for _, block in blocks(features, n_classes=len(self.bias))]
        return torch.cat(answers)

    def _checked(self, features: object) -> Tensor:
        return unit_rows(features, name="features", size=len(self.classifier)).to(self.classifier.device)


def calibrated(zero_shot: Adapted, *, texts: Statistics) -> Adapted:
    """The same answers at the scale that the information of the predictions calls for.

    Args:
        zero_shot: the texts' own classifier.
        texts: statistics of its predictions.
    """
    return replace(zero_shot, classifier=SHARPNESS * texts.information * zero_shot.classifier)


def estimate(
    features: Tensor, *, zero_shot: Adapted, texts: Statistics, logit_scale: float, trust: Trust, off: float = 0.0
) -> tuple[Adapted, Tensor]:
    """Run EM.

    Args:
        features: (N, D).
        zero_shot: the texts' own classifier.
        texts: statistics of its predictions.
        logit_scale: s.
        trust: a and h.
        off: share of the mean image that is taken off before the texts see an image: 0, but in a second look.

    Returns:
        The classifier of texts, centres and class weights, and its predictions (N,).
    """
    n_images = len(features)
    n_classes = len(zero_shot.bias)
    mean = texts.mean.float()
    start = calibrated(zero_shot, texts=texts)
    taken_off = off * (mean @ start.classifier)
    anchor = trust.anchor
    centre_scale = trust.centres * logit_scale
    pile, predictions = predict_softly(features, by=replace(start, bias=-taken_off))
    for _ in range(ROUNDS):
        counts = (pile.soft_counts + anchor).float()
        centres = (pile.sums + anchor * mean) / counts[:, None]  # (C, D)
        weights = counts / (n_images + n_classes * anchor)
        bias = weights.log() - taken_off - centre_scale / 2 * centres.square().sum(dim=1)
        adapted = Adapted(torch.add(start.classifier, centres.T, alpha=centre_scale), bias, True, "")
        last = predictions
        pile, predictions = predict_softly(features, by=adapted)
        share_changed = float((last != predictions).double().mean())
        if share_changed <= SETTLED:
            break
    return adapted, predictions


# ------------------------------------------------------------------------------------------------- statistics


@dataclass(frozen=True)
class Statistics:
    """Sums over a classifier's predictions on some images.

    Attributes:
        sums: (C, D) float32, images weighted by their probability of each class.
        soft_counts: (C,) float64, those probabilities.
        entropy: of the soft predictions, in nats, summed over images.
        n: number of images.
    """

    sums: Tensor
    soft_counts: Tensor
    entropy: float
    n: int

    @property
    def mean(self) -> Tensor:
        """The mean image (D,) float64: the probabilities of an image sum to 1."""
        return self.sums.sum(dim=0, dtype=torch.float64) / self.n

    @property
    def information(self) -> float:
        """Mutual information of image and predicted class as a share of log C: 0 if all images get the same prediction.

        That is, the entropy of the mean soft prediction minus the mean entropy of the soft predictions.
        """
        of_mean = float(entr(self.soft_counts / self.n).sum())
        mean_entropy = self.entropy / self.n
        # Never negative but for rounding.
        nats = max(0.0, of_mean - mean_entropy)
        return nats / math.log(len(self.soft_counts))


def predict_softly(features: Tensor, *, by: Adapted) -> tuple[Statistics, Tensor]:
    """One pass over features (N, D), in blocks of logits: statistics and predictions (N,) int32."""
    n_classes = len(by.bias)
    sums = torch.zeros(n_classes, features.shape[1])
    soft_counts = torch.zeros(n_classes, dtype=torch.float64)
    predictions = torch.empty(len(features), dtype=torch.int32)
    entropy = 0.0
    for part, block in blocks(features, n_classes=n_classes):
        logits = torch.addmm(by.bias, block, by.classifier)
        predictions[part] = logits.argmax(dim=1)
        log_p = logits.log_softmax(dim=1)
        p = log_p.exp()
        # Sums over classes in float32, over images in float64: a pile may have a million of them.
        of_images = log_p.mul_(p).sum(dim=1)
        entropy -= float(of_images.sum(dtype=torch.float64))
        sums.addmm_(p.T, block)
        soft_counts += p.sum(dim=0, dtype=torch.float64)
    return Statistics(sums, soft_counts, entropy, len(features)), predictions


def blocks(features: Tensor, *, n_classes: int) -> Iterator[tuple[slice, Tensor]]:
    """Features in order, in float32, so many at a time that their logits fit `LOGITS_PER_BLOCK`; and which they are."""
    size = max(1, LOGITS_PER_BLOCK // n_classes)
    for start in range(0, len(features), size):
        part = slice(start, start + size)
        yield part, features[part].float()
