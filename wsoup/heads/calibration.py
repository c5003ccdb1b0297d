"""A temperature for logits of left-out images, and a threshold for the probabilities that come of it."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

PRIOR_STD = 0.5
"""Standard deviation of the prior of log temperature, whose mean is 0: logits are in the model's own scale."""
LARGEST = 5.0
"""The search for log temperature runs from -5 to 5."""
ROWS = 256
"""Images at a time, whose logits stay in the processor's cache: three times as fast."""
LOGITS = 1 << 18
"""Logits at a time, so of fewer images where there are more than 1,024 classes: four times as fast with 10,000."""
STEPS = 24
"""Steps of that search, which leave an interval of 1e-4."""


def rows_at_once(logits: Tensor) -> int:
    """Images whose logits are worked on together."""
    return min(ROWS, max(1, LOGITS // logits.shape[1]))


def log_loss(logits: Tensor, labels: Tensor, *, temperature: float) -> float:
    """Mean of -log p(label): (n, C), (n,) -> non-negative number."""
    total = 0.0
    at_once = rows_at_once(logits)
    for some_logits, some_labels in zip(logits.split(at_once), labels.split(at_once), strict=True):
        total += float(F.cross_entropy(some_logits / temperature, some_labels, reduction="sum"))
    return total / len(labels)


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """The most likely temperature of softmax(logits / temperature) given left-out images, by golden-section search.

    The prior keeps a few images that are all right from making the temperature 0 and every prediction certain. With
    many images it does not matter, and this is temperature scaling (Guo et al., arXiv 1706.04599).

    Args:
        logits: (n, C) float64 of left-out images.
        labels: (n,) int64.

    Returns:
        A positive number; 1 if there are no images.
    """

    def cost(log_temperature: float) -> float:
        # The sum of losses, not their mean: the more images there are, the less the prior counts.
        loss = log_loss(logits, labels, temperature=math.exp(log_temperature))
        prior = (log_temperature / PRIOR_STD) ** 2 / 2
        return len(labels) * loss + prior

    if not len(labels):
        return 1.0
    golden = (math.sqrt(5) - 1) / 2
    low = -LARGEST
    high = LARGEST
    left = high - golden * (high - low)
    right = low + golden * (high - low)
    cost_left = cost(left)
    cost_right = cost(right)
    for _ in range(STEPS):
        # The golden ratio makes one of the two inner points serve the next step, too.
        if cost_left <= cost_right:
            high = right
            right = left
            cost_right = cost_left
            left = high - golden * (high - low)
            cost_left = cost(left)
        else:
            low = left
            left = right
            cost_left = cost_right
            right = low + golden * (high - low)
            cost_right = cost(right)
    return math.exp((low + high) / 2)


def threshold(confidences: Tensor, right: Tensor, *, precision: float) -> float:
    """The smallest confidence from which predictions reach a precision, and never below that precision.

    Confidences are calibrated, so one below the precision would not be enough by its own word, whatever was left out;
    on photos in another style that decides. Among the left-out images at or above the threshold, (wrong + 1) / (all +
    1) is at most 1 - precision. As in conformal prediction, the extra wrong one stands for the next photo, so 0.95
    takes 19 right ones. Where too few are left out for that, the threshold is the precision itself, unless the share of
    right ones among left-out images from there on is smaller.

    Args:
        confidences: (n,) largest probability of each left-out image.
        right: (n,) bool, whether its prediction is right.
        precision: share of right predictions among those at or above the threshold, between 0 and 1.

    Returns:
        A number from the precision to 1; infinity if there are no left-out images or they contradict, so that every
        photo is abstained from.
    """
    order = torch.argsort(confidences, descending=True, stable=True)
    descending = confidences[order]
    n_wrong = (~right[order]).cumsum(0)
    n_all = torch.arange(1, len(order) + 1)
    # 1e-9, because (1 - 0.9) * 10 is a little less than 1 in floats.
    share_wrong = 1 - precision + 1e-9
    good = (n_wrong + 1) <= share_wrong * (n_all + 1)
    last = torch.ones_like(good)
    last[:-1] = descending[1:] < descending[:-1]  # equal confidences stay together
    enough = (good & last).nonzero()[:, 0]
    if len(enough):
        return max(precision, float(descending[enough[-1]]))
    confident = confidences >= precision
    n_contradicting = int((confident & ~right).sum())
    if not len(confidences) or n_contradicting > share_wrong * int(confident.sum()):
        return math.inf
    return precision
