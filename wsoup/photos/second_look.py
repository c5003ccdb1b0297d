"""Signs that an adapted classifier has named groups of photos wrongly, found by a second look at its answers.

Three kinds of pile end badly: photos of one class or mostly of one, which are split among names; photos of things that
are no class at all, which form groups of their own and get a name; and texts that do not fit. None needs a label to be
seen.

- **Agreement.** The mean image of a pile may favour a class because its text is close to all images, or because the
  class is frequent. Adaptation takes half of it off (`estimation.OFF`). Where one answer with nothing off and one with
  all of it off agree, it does not matter which is true. Where the mean image tells classes apart strongly (`pull`), as
  in a pile of few classes, they must agree on more.
- **Lift.** Photos that were given a class are those that its text favours: the mean log ratio of the text's
  probability there and in the whole pile.
- **Parting.** Groups of photos become more distinct by adaptation, but not many times as distinct.

The signs and their limits were chosen among 24 on 1,237 piles of photographs (docs/notes/heads.md).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wsoup.photos.estimation import Adapted, Statistics, blocks, estimate

JUDGED = 0.5
"""Classes are judged by `lift` from this share of an equal class's images; smaller ones are too noisy."""


def agreement(features: Tensor, *, zero_shot: Adapted, logit_scale: float, mean: Tensor) -> float:
    """Share of images with the same answer whether nothing or all of the mean image is taken off.

    Args:
        features: (N, D).
        zero_shot: the texts' own classifier.
        logit_scale: s.
        mean: (D,) float64, the mean image.
    """
    answers = []
    for off in (0.0, 1.0):
        _, _, predictions = estimate(features, zero_shot=zero_shot, logit_scale=logit_scale, mean=mean, off=off)
        answers.append(predictions)
    nothing_off, all_off = answers
    agrees = nothing_off == all_off
    return float(agrees.double().mean())


def pull(features: Tensor, *, zero_shot: Adapted, mean: Tensor) -> float:
    """How strongly the mean image tells classes apart, compared with single images.

    The standard deviation over classes of the mean image's logits, divided by that of what single images add to them.
    """
    n_classes = len(zero_shot.bias)
    # What a text has in common with all others favours no class.
    differences = zero_shot.classifier - zero_shot.classifier.mean(dim=1, keepdim=True)  # (D, C)
    mean_logits = mean.float() @ differences
    squares = 0.0
    for _, block in blocks(features, n_classes=n_classes):
        own_logits = (block - mean.float()) @ differences
        squares += float(own_logits.square().sum(dtype=torch.float64))
    of_images = math.sqrt(squares / (len(features) * n_classes - 1))
    if of_images == 0.0:
        return math.inf
    return float(mean_logits.std()) / of_images


def lift(features: Tensor, *, zero_shot: Adapted, texts: Statistics, predictions: Tensor) -> float:
    """The smallest lift of a class: log of its text's mean probability on the images that got it, over that of all.

    Args:
        features: (N, D).
        zero_shot: the texts' own classifier.
        texts: statistics of its predictions.
        predictions: (N,) of the adapted classifier.
    """
    n_classes = len(zero_shot.bias)
    labels = predictions.long()
    own = torch.zeros(n_classes, dtype=torch.float64)
    for part, block in blocks(features, n_classes=n_classes):
        probabilities = torch.addmm(zero_shot.bias, block, zero_shot.classifier).softmax(dim=1)
        given = probabilities.gather(1, labels[part, None])[:, 0]
        own.index_add_(0, labels[part], given.double())
    counts = torch.bincount(labels, minlength=n_classes)
    judged = counts >= JUDGED * len(features) / n_classes
    on_own_images = own[judged] / counts[judged]
    on_all_images = texts.soft_counts[judged] / texts.n
    # A probability that underflows is as good as none: its logarithm would be minus infinity.
    smallest = torch.finfo(torch.float32).tiny
    lifts = (on_own_images.clamp(min=smallest) / on_all_images.clamp(min=smallest)).log()
    return float(lifts.min())


def cost(features: Tensor, *, zero_shot: Adapted, by: Adapted) -> float:
    """Accuracy that the answers of `by` lose if the texts' own probabilities are right: a share of the images.

    The mean of the text's probability of its own answer minus that of the answer of `by`; never negative.
    """
    lost = 0.0
    for _, block in blocks(features, n_classes=len(zero_shot.bias)):
        probabilities = zero_shot.logits(block).softmax(dim=1)
        answers = by.logits(block).argmax(dim=1)
        given = probabilities.gather(1, answers[:, None])[:, 0]
        own = probabilities.amax(dim=1)
        lost += float((own - given).sum(dtype=torch.float64))
    return lost / len(features)


def parting(features: Tensor, *, mean: Tensor, before: Tensor, after: Tensor) -> float:
    """How many times as far apart the groups of images are by predictions `after` (N,) as by `before` (N,)."""
    apart_before = _scatter(features, mean=mean, predictions=before)
    apart_after = _scatter(features, mean=mean, predictions=after)
    if apart_before == 0.0:
        return math.inf if apart_after > 0.0 else 1.0
    return apart_after / apart_before


def _scatter(features: Tensor, *, mean: Tensor, predictions: Tensor) -> float:
    """Squared distances of the groups' means from the mean image, summed over images."""
    labels = predictions.long()
    n_groups = int(labels.max()) + 1
    sums = torch.zeros(n_groups, features.shape[1], dtype=torch.float64)
    for part, block in blocks(features, n_classes=n_groups):
        sums.index_add_(0, labels[part], block.double())
    counts = torch.bincount(labels, minlength=n_groups).double()
    means = sums / counts.clamp(min=1)[:, None]
    distances = (means - mean).square().sum(dim=1)
    return float((counts * distances).sum())
