"""One look at images by a linear classifier, block by block: sums over soft answers, and the answers themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from wsoup.adapt.adapted import Adapted, rows_at_once


@dataclass(frozen=True)
class Seen:
    """What is kept of images that were looked at: sums alone, so that those of two piles add up.

    Attributes:
        sums: (C, D) float32, sum of the images by their probability of each class.
        counts: (C,) float64, sum of those probabilities.
        answered: (C,) float64, how many images have each class as their answer.
        doubt: sum of the entropies of the soft answers.
    """

    sums: Tensor
    counts: Tensor
    answered: Tensor
    doubt: float

    def __add__(self, other: Seen) -> Seen:
        answered, doubt = self.answered + other.answered, self.doubt + other.doubt
        return Seen(self.sums + other.sums, self.counts + other.counts, answered, doubt)

    def __mul__(self, factor: float) -> Seen:
        """As if there were so many times as many images of the same sort."""
        return Seen(self.sums * factor, self.counts * factor, self.answered * factor, self.doubt * factor)

    @property
    def n(self) -> float:
        """Images, at least 1."""
        return max(1.0, float(self.answered.sum()))

    @property
    def mean(self) -> Tensor:
        """The mean image (D,) float64: probabilities of an image add up to 1."""
        return self.sums.sum(dim=0, dtype=torch.float64) / self.n

    @property
    def information(self) -> float:
        """What an answer tells of the image, from 0 (the same answer for all) to 1.

        Entropy of the mean soft answer less the mean entropy of soft answers, in shares of log C.
        """
        told = max(0.0, float(_entropy(self.counts / self.n)) - self.doubt / self.n)
        return told / math.log(len(self.counts))

    @property
    def effective_classes(self) -> float:
        """exp(entropy of the answers) / C: 1 where every class is answered equally often."""
        return float(_entropy(self.answered / self.n).exp()) / len(self.counts)


def look(features: Tensor, *, by: Adapted) -> tuple[Seen, Tensor]:
    """One pass over features (N, D), at most 64 MiB of logits at a time; the answers are (N,) int32."""
    n_classes = len(by.bias)
    sums = torch.zeros(n_classes, features.shape[1])
    counts = torch.zeros(n_classes, dtype=torch.float64)
    answers = torch.empty(len(features), dtype=torch.int32)
    doubt = 0.0
    rows = rows_at_once(by.bias)
    for start in range(0, len(features), rows):
        block = features[start : start + rows].float()
        logits = torch.addmm(by.bias, block, by.classifier)
        answers[start : start + rows] = logits.argmax(dim=1)
        log_p = logits.log_softmax(dim=1)
        p = log_p.exp()
        doubt -= float(log_p.mul_(p).sum(dim=1).sum(dtype=torch.float64))
        sums.addmm_(p.T, block)
        counts += p.sum(dim=0, dtype=torch.float64)
    return Seen(sums, counts, torch.bincount(answers, minlength=n_classes).double(), doubt), answers


def _entropy(shares: Tensor) -> Tensor:
    return -(shares * shares.clamp_min(1e-300).log()).sum()
