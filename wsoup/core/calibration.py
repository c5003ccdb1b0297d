"""Whether classifiers are right as often as they are sure: the expected calibration error, and the likelihood.

Axes: N images, C classes, P classifiers. A probability is the softmax of scores times the logit scale.
"""

from typing import NamedTuple

import torch
from torch import Tensor

BINS = 15
"""Bins of equal width that confidences are sorted into, as usual since Guo et al. (arXiv 1706.04599)."""


class Probabilities(NamedTuple):
    """What P classifiers make of N labelled images.

    Attributes:
        confidence: (P, N), probability of the predicted class.
        log_p: (P, N), logarithm of the probability of the image's own class.
    """

    confidence: Tensor
    log_p: Tensor


def probabilities(scores: Tensor, labels: Tensor, predicted: Tensor, *, logit_scale: float) -> Probabilities:
    """Of scores (n, P, C), which are overwritten, labels (n,) and predicted labels (n, P), int64; `log_p` is finite."""
    own = scores.gather(2, labels[:, None, None].expand(*predicted.shape, 1))
    best = scores.gather(2, predicted[..., None])
    # No exponent is above 0, so none overflows. In place, because with copies this takes as long as the product did.
    total = scores.sub_(best).mul_(logit_scale).exp_().sum(dim=2)  # (n, P)
    log_p = logit_scale * (own - best)[..., 0] - total.log()
    return Probabilities((1 / total).T, log_p.T)


class Calibration:
    """Sums over images, from which calibration errors and likelihoods of R classifiers are taken.

    Images may be added in blocks of any size, in their order.

    Args:
        n_classifiers: R.
        device: of the features.
    """

    def __init__(self, n_classifiers: int, *, device: torch.device) -> None:
        self.sure = torch.zeros(n_classifiers, BINS, dtype=torch.float64, device=device)
        self.right = torch.zeros_like(self.sure)
        self.log_p = torch.zeros(n_classifiers, dtype=torch.float64, device=device)

    def add(self, made: Probabilities, *, right: Tensor, first: int = 0) -> None:
        """Add what the classifiers from the `first` on make of some images, and which of these are right, (P, n)."""
        bins = (made.confidence * BINS).ceil().long().sub(1).clamp(0, BINS - 1)
        classifiers = torch.arange(first, first + len(bins), device=bins.device)[:, None].expand_as(bins)
        places = (classifiers * BINS + bins).flatten()
        self.sure.view(-1).index_add_(0, places, made.confidence.double().flatten())
        self.right.view(-1).index_add_(0, places, right.double().flatten())
        self.log_p.index_add_(0, classifiers.flatten(), made.log_p.double().flatten())

    def errors(self, n_images: int) -> list[float]:
        """By classifier, the mean over images of |share right - mean confidence| of the image's bin: 0 to 1."""
        errors: list[float] = ((self.sure - self.right).abs().sum(dim=1) / n_images).tolist()
        return errors

    def log_likelihoods(self, n_images: int) -> list[float]:
        """By classifier, the mean over images of log p of the own class, in nats: 0 at most."""
        likelihoods: list[float] = (self.log_p / n_images).tolist()
        return likelihoods
