"""How far a classifier goes from class texts towards what was estimated from a pile of images.

The way is a straight line: texts count in full, and centres and class weights by a share t of their own. An image's
answer changes at the first t at which another class overtakes the text's, so the share of answers that change decides
how far to go, and no more answers can be lost than change.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wsoup.photos.estimation import Adapted, blocks

ROUNDING = 1e-6
"""Share of the sum of squares that float32 features may lose."""


def explained(features: Tensor, *, answers: Tensor, n_classes: int) -> float:
    """Share of the images' variance that lies between the groups of the same answer (adjusted R squared): 0 to 1.

    Groups drawn at random explain (C - 1) / (N - 1) of any variance; that is taken off, so that they explain 0 on
    average. A constant added to all images changes nothing. Images that are all the same have no variance: 0.

    Args:
        features: (N, D), N > C.
        answers: (N,) integers below C.
        n_classes: C.
    """
    n_images = len(features)
    sums = torch.zeros(n_classes, features.shape[1], dtype=torch.float64)
    squares = 0.0
    for part, block in blocks(features, n_classes=n_classes):
        sums.index_add_(0, answers[part].long(), block.double())
        squares += float(block.double().square().sum())
    counts = torch.bincount(answers.long(), minlength=n_classes)
    of_mean = float(sums.sum(dim=0).square().sum()) / n_images
    of_groups = float((sums.square().sum(dim=1) / counts.clamp(min=1)).sum())
    # Rounding leaves a little variance to images that are all the same.
    if squares - of_mean <= ROUNDING * squares:
        return 0.0
    within = (squares - of_groups) / (n_images - n_classes)
    total = (squares - of_mean) / (n_images - 1)
    return max(0.0, 1 - within / total)


def step(features: Tensor, *, start: Adapted, end: Adapted, at_most: int) -> float:
    """The largest share of the way from `start` to `end` on which no more than `at_most` answers change.

    Args:
        features: (N, D).
        start, end: classifiers of the same classes.
        at_most: number of images.

    Returns:
        1 for the whole way; else midway between the last answer that changes and the first that must not; 0 if none
        may change.
    """
    when = crossings(features, start=start, end=end).sort().values
    if at_most >= len(when) or when[at_most] > 1:
        return 1.0
    refused = float(when[at_most])
    # Images that change together, as copies of one photo do, all stay.
    allowed = when[when < refused]
    if len(allowed) == 0:
        return 0.0
    return (float(allowed[-1]) + refused) / 2


def crossings(features: Tensor, *, start: Adapted, end: Adapted) -> Tensor:
    """(N,) the share of the way at which each image's answer first changes; infinity if it never does."""
    first = torch.empty(len(features))
    for part, block in blocks(features, n_classes=len(start.bias)):
        there = start.logits_of(block)
        answer = there.argmax(dim=1, keepdim=True)
        lead = there.gather(1, answer) - there  # of the answer over each class, at the start
        logits = end.logits_of(block)
        lag = logits - logits.gather(1, answer)  # of the answer behind each class, at the end
        overtaken = torch.where(lag > 0, lead / (lead + lag), math.inf)
        overtaken.scatter_(1, answer, math.inf)
        first[part] = overtaken.amin(dim=1)
    return first


def between(start: Adapted, end: Adapted, *, share: float) -> Adapted:
    """The classifier at this share of the way."""
    classifier = torch.lerp(start.classifier, end.classifier, share)
    return Adapted(classifier, torch.lerp(start.bias, end.bias, share), True, "")
