"""How sure a head may be: its temperature and the confidence below which it should abstain, from left-out images."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

LOOSE = 0.5
"""Standard deviation of log temperature before anything is seen: the logits come in the model's own scale."""
REACH = 5.0
"""Temperatures from exp(-5) to exp(5) are looked at."""
STEPS = 40


def log_loss(logits: Tensor, labels: Tensor, *, temperature: float) -> float:
    """Mean of -log p(label): (n, C), (n,) -> number from 0."""
    return float(F.cross_entropy(logits / temperature, labels))


def temperature(logits: Tensor, labels: Tensor) -> float:
    """The most likely temperature of softmax(logits / temperature), given left-out images and their labels.

    Before, log temperature is normal around 0: a few images that are all right would otherwise make it 0, and every
    answer certain. Images add up, so that with many of them this is the temperature of the least log loss (Guo et al.,
    arXiv 1706.04599). Found by golden section.

    Args:
        logits: (n, C) float64 of left-out images.
        labels: (n,) int64.

    Returns:
        A number above 0; 1 where there are no images.
    """

    def cost(place: float) -> float:
        return len(labels) * log_loss(logits, labels, temperature=math.exp(place)) + (place / LOOSE) ** 2 / 2

    if not len(labels):
        return 1.0
    golden = (math.sqrt(5) - 1) / 2
    low, high = -REACH, REACH
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = cost(left), cost(right)
    for _ in range(STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = cost(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = cost(right)
    return math.exp((low + high) / 2)


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
