"""One look at all images by a linear classifier, block by block: sums over soft answers, and the answers themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from wsoup.adapt.adapted import Adapted, rows_at_once


@dataclass(frozen=True)
class Seen:
    """What one pass keeps.

    Attributes:
        sums: (C, D) float64, sum of the images by their probability of each class.
        counts: (C,) float64, sum of those probabilities.
        answers: (N,) int32.
        information: entropy of the mean soft answer less the mean entropy of soft answers, in shares of log C: what an
            answer tells of the image, from 0 (the same answer for all) to 1.
    """

    sums: Tensor
    counts: Tensor
    answers: Tensor
    information: float

    @property
    def mean(self) -> Tensor:
        """The mean image (D,) float64: probabilities of an image add up to 1."""
        return self.sums.sum(dim=0) / max(1, len(self.answers))

    @property
    def effective_classes(self) -> float:
        """exp(entropy of the answers) / C: 1 where every class is answered equally often."""
        shares = torch.bincount(self.answers.long(), minlength=len(self.counts)).double() / max(1, len(self.answers))
        return float(_entropy(shares).exp()) / len(self.counts)


def look(features: Tensor, *, by: Adapted) -> Seen:
    """One pass over features (N, D), at most 64 MiB of logits at a time."""
    n_classes = len(by.bias)
    sums = torch.zeros(n_classes, features.shape[1], dtype=torch.float64)
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
        sums += (p.T @ block).double()
        counts += p.sum(dim=0, dtype=torch.float64)
    n = max(1, len(features))
    told = max(0.0, float(_entropy(counts / n)) - doubt / n)
    return Seen(sums, counts, answers, told / math.log(n_classes))


def _entropy(shares: Tensor) -> Tensor:
    return -(shares * shares.clamp_min(1e-300).log()).sum()
