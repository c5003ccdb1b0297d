"""How sure a head may be: its temperature and the confidence below which it should abstain, from left-out images."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

HALVINGS = 60


def log_loss(logits: Tensor, labels: Tensor, *, temperature: float) -> float:
    """Mean of -log p(label): (n, C), (n,) -> number from 0."""
    return float(F.cross_entropy(logits / temperature, labels))


def temperature(logits: Tensor, labels: Tensor) -> float:
    """The temperature at which softmax(logits / temperature) has the least log loss on left-out images.

    The wanted probability of the own class is (n + 1) / (n + 2) and not 1, the rest spread over the others: without
    that, a few images that are all right would make it 0, and every answer certain (Platt, Probabilistic outputs for
    support vector machines, 1999). The loss is convex in 1 / temperature: its slope is halved down to 0.

    Args:
        logits: (n, C) float64 of left-out images.
        labels: (n,) int64.

    Returns:
        A number above 0; 1 where there are no images, or where all logits of every image are equal.
    """
    n, n_classes = logits.shape
    spread = float((logits.amax(dim=1) - logits.amin(dim=1)).max()) if n else 0.0
    if spread == 0.0:
        return 1.0
    doubt = 1 / (n + 2)
    wanted = torch.full_like(logits, doubt / (n_classes - 1))
    wanted[torch.arange(n), labels] = 1 - doubt
    target = (wanted * logits).sum(dim=1).mean()
    low, high = 1e-4 / spread, 1e4 / spread  # of 1 / temperature
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        slope = ((middle * logits).softmax(dim=1) * logits).sum(dim=1).mean() - target
        low, high = (low, middle) if slope > 0 else (middle, high)
    return 1 / math.sqrt(low * high)


def threshold(confidences: Tensor, right: Tensor, *, precision: float) -> float:
    """The least confidence from which answers can be trusted to be right as often as `precision` says.

    Of the left-out images that are at least so sure, (wrong + 1) / (all + 1) may be 1 - precision at the most; the one
    that is counted as wrong stands for the next photo (as in conformal prediction), so that few images promise little.

    Args:
        confidences: (n,) largest probability of each left-out image.
        right: (n,) bool, whether its answer is right.
        precision: share of right answers among those given, above 0 and below 1.

    Returns:
        A number from 0 to 1; infinity where no confidence is enough: then every photo is abstained from.
    """
    order = torch.argsort(confidences, descending=True, stable=True)
    sorted_, wrong = confidences[order], (~right[order]).cumsum(0)
    given = torch.arange(1, len(order) + 1)
    good = (wrong + 1) <= (1 - precision) * (given + 1) + 1e-9
    last = torch.ones_like(good)
    last[:-1] = sorted_[1:] < sorted_[:-1]  # among equals, all or none
    enough = (good & last).nonzero()[:, 0]
    return float(sorted_[enough[-1]]) if len(enough) else math.inf


def calibration_error(probabilities: Tensor, labels: Tensor, *, bins: int = 15) -> float:
    """Expected calibration error: mean gap of confidence and accuracy over `bins` equal bins (Guo et al., 1706.04599).

    Args:
        probabilities: (N, C).
        labels: (N,).
        bins: of confidence, from 0 to 1.

    Returns:
        From 0 (calibrated) to 1.
    """
    confidences, answers = probabilities.max(dim=1)
    right = (answers == labels).to(confidences.dtype)
    places = (confidences * bins).long().clamp_(0, bins - 1)
    gaps = torch.zeros(bins, dtype=confidences.dtype).index_add_(0, places, right - confidences)
    return float(gaps.abs().sum()) / len(labels)
