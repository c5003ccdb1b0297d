"""A linear classifier for a pile of unlabelled images, and the statistics of its soft predictions on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wsoup.core.arrays import rows, tensor

LOGITS_PER_BLOCK = 1 << 24
"""Logits in memory at a time (64 MiB in float32)."""


@dataclass(frozen=True)
class Adapted:
    """logits = f W + b: adapted to a pile, or the zero-shot classifier where the guard kept it.

    Attributes:
        kind: ``em`` or ``center``, as asked for.
        classifier: W (D, C) float32, including the logit scale.
        bias: b (C,) float32.
        adapted: whether it differs from the zero-shot classifier.
        note: if not, why: one line with the numbers that decided.
    """

    kind: str
    classifier: Tensor
    bias: Tensor
    adapted: bool
    note: str

    def logits(self, features: Any) -> Tensor:
        """(N, D) -> (N, C) float32."""
        return rows(features, name="features", size=len(self.classifier)) @ self.classifier + self.bias

    def predict_proba(self, features: Any) -> Tensor:
        """(N, D) -> (N, C) float32, each row summing to 1; not calibrated."""
        return self.logits(features).softmax(dim=1)

    def predict(self, features: Any) -> Tensor:
        """(N, D) -> (N,) int64, in blocks; ties go to the lowest label."""
        x = tensor(features, name="features")
        blocks = x.split(block_size(self.bias)) if x.dim() else (x,)
        return torch.cat([self.logits(block).argmax(dim=1) for block in blocks])


def block_size(bias: Tensor) -> int:
    """Images per block for the classes of `bias` (C,)."""
    return max(1, LOGITS_PER_BLOCK // max(1, len(bias)))


def zero_shot_classifier(texts: Tensor, *, logit_scale: float, kind: str) -> Adapted:
    """The classifier of class texts (D, C), before any adaptation."""
    classifier = (logit_scale * texts.float()).T.contiguous().T  # each class contiguous, as the centres are
    return Adapted(kind, classifier, texts.new_zeros(texts.shape[1]).float(), False, "")


@dataclass(frozen=True)
class Statistics:
    """Sums over a classifier's predictions on some images; those of two piles add up.

    Attributes:
        sums: (C, D) float32, images weighted by their probability of each class.
        soft_counts: (C,) float64, those probabilities.
        counts: (C,) float64, images predicted as each class.
        entropy: of the soft predictions, in nats, summed over images.
    """

    sums: Tensor
    soft_counts: Tensor
    counts: Tensor
    entropy: float

    def __add__(self, other: Statistics) -> Statistics:
        counts, entropy = self.counts + other.counts, self.entropy + other.entropy
        return Statistics(self.sums + other.sums, self.soft_counts + other.soft_counts, counts, entropy)

    def __mul__(self, factor: float) -> Statistics:
        """The same images, counted `factor` times."""
        return Statistics(self.sums * factor, self.soft_counts * factor, self.counts * factor, self.entropy * factor)

    @property
    def n(self) -> float:
        """Number of images, at least 1."""
        return max(1.0, float(self.counts.sum()))

    @property
    def mean(self) -> Tensor:
        """The mean image (D,) float64: the probabilities of an image sum to 1."""
        return self.sums.sum(dim=0, dtype=torch.float64) / self.n

    @property
    def information(self) -> float:
        """Mutual information of image and predicted class as a share of log C: 0 if all images get the same prediction.

        That is, the entropy of the mean soft prediction minus the mean entropy of the soft predictions.
        """
        nats = max(0.0, float(_entropy(self.soft_counts / self.n)) - self.entropy / self.n)
        return nats / math.log(len(self.soft_counts))

    @property
    def effective_classes(self) -> float:
        """exp(entropy of the predicted classes) / C: 1 if every class is predicted equally often."""
        return float(_entropy(self.counts / self.n).exp()) / len(self.counts)


def predict_softly(features: Tensor, *, by: Adapted) -> tuple[Statistics, Tensor]:
    """One pass over features (N, D), in blocks of logits: statistics and predictions (N,) int32."""
    n_classes = len(by.bias)
    sums = torch.zeros(n_classes, features.shape[1])
    soft_counts = torch.zeros(n_classes, dtype=torch.float64)
    predictions = torch.empty(len(features), dtype=torch.int32)
    entropy = 0.0
    size = block_size(by.bias)
    for start in range(0, len(features), size):
        block = features[start : start + size].float()
        logits = torch.addmm(by.bias, block, by.classifier)
        predictions[start : start + size] = logits.argmax(dim=1)
        log_p = logits.log_softmax(dim=1)
        p = log_p.exp()
        entropy -= float(log_p.mul_(p).sum(dim=1).sum(dtype=torch.float64))
        sums.addmm_(p.T, block)
        soft_counts += p.sum(dim=0, dtype=torch.float64)
    counts = torch.bincount(predictions, minlength=n_classes).double()
    return Statistics(sums, soft_counts, counts, entropy), predictions


def _entropy(shares: Tensor) -> Tensor:
    return -(shares * shares.clamp_min(1e-300).log()).sum()
