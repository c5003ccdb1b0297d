"""Signs that an adapted classifier is wrong about a pile, found by a second look at its answers.

Some kinds of pile end badly: photos of one class or mostly of one, which are split among names; photos of things that
are no class at all, which form groups of their own and get a name; and texts that do not fit, or that fit better than
any group of photos. None needs a label to be seen.

- **Cost.** If the texts' own probabilities are right, answers that change cost accuracy. Where the photos contradict
  the texts by much, one of them is wrong.
- **Lift.** Photos that were given a class are those that its text favours: the mean log ratio of the text's
  probability there and in the whole pile.
- **Spread.** Photos vary more along the differences of texts that tell them apart than along other directions. Random
  texts, or those of another model, form groups of photos, too, and would name them.
- **Agreement.** The mean image of a pile may favour a class because its text is close to all images, or because the
  class is frequent. Adaptation believes the second. Where an answer with the mean image taken off agrees, it does not
  matter which is true.

The signs and their limits were chosen on piles of photographs (docs/notes/adaptation.md).
"""

from __future__ import annotations

import torch
from torch import Tensor

from wsoup.photos.estimation import BOLD, Adapted, Statistics, blocks, estimate

JUDGED = 0.5
"""Classes are judged by `lift` from this share of an equal class's images; smaller ones are too noisy."""


def agreement(
    features: Tensor, *, zero_shot: Adapted, texts: Statistics, logit_scale: float, predictions: Tensor
) -> float:
    """Share of images with the same answer if the mean image is taken off.

    Args:
        features: (N, D).
        zero_shot: the texts' own classifier.
        texts: statistics of its predictions.
        logit_scale: s.
        predictions: (N,) with nothing taken off.
    """
    _, all_off = estimate(features, zero_shot=zero_shot, texts=texts, logit_scale=logit_scale, trust=BOLD, off=1.0)
    agrees = all_off == predictions
    return float(agrees.double().mean())


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


def spread(features: Tensor, *, zero_shot: Adapted, texts: Statistics) -> float:
    """Variance of images along the differences of class texts, relative to its mean over all directions.

    1 on average for texts drawn at random; a constant added to all images, or to all texts, changes nothing. Images
    that are all the same have no variance: 1.

    Args:
        features: (N, D).
        zero_shot: the texts' own classifier.
        texts: statistics of its predictions.
    """
    differences = zero_shot.classifier - zero_shot.classifier.mean(dim=1, keepdim=True)  # (D, C)
    mean = texts.mean.float()
    along_texts = 0.0
    along_all = 0.0
    for _, block in blocks(features, n_classes=len(zero_shot.bias)):
        centred = block - mean
        along_texts += float((centred @ differences).square().sum(dtype=torch.float64))
        along_all += float(centred.square().sum(dtype=torch.float64))
    chance = float(differences.square().sum(dtype=torch.float64)) * along_all / features.shape[1]
    return along_texts / chance if chance > 0 else 1.0


def cost(features: Tensor, *, zero_shot: Adapted, predictions: Tensor) -> float:
    """Accuracy that other answers lose if the texts' own probabilities are right: a share of the images.

    The mean of the text's probability of its own answer minus that of the other one; never negative.

    Args:
        features: (N, D).
        zero_shot: the texts' own classifier.
        predictions: (N,) the other answers.
    """
    labels = predictions.long()
    lost = 0.0
    for part, block in blocks(features, n_classes=len(zero_shot.bias)):
        probabilities = zero_shot.logits_of(block).softmax(dim=1)
        given = probabilities.gather(1, labels[part, None])[:, 0]
        own = probabilities.amax(dim=1)
        lost += float((own - given).sum(dtype=torch.float64))
    return lost / len(features)
