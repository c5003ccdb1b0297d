"""How alike photos are, and how they lie beside the texts, by differences alone.

An encoder may add one vector to all photos and another to all texts: CLIP's lie in two cones. That says nothing of any
class, so nothing here but `Likeness.similarity` changes with it, once the features have length 1 again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from wsoup.core.alignment import class_sums
from wsoup.heads.fewshot import FewShot

USUAL = 0.12
"""Spread of the cosines of photos where there are too few pairs of classes to measure it, as in paintings."""
PAIRS = 5
"""Pairs of classes that `USUAL` counts as."""
LEAST_VARIANCE = 1e-6
"""What photos or texts of different classes differ by at least: below it there is only rounding."""


class Likeness(NamedTuple):
    """How photos and texts of different classes lie.

    Attributes:
        similarity: mean cosine of photos of different classes, each pair of classes counting the same.
        variance: 1 - similarity, half of the mean squared distance of such photos.
        spread: standard deviation of their cosines by `variance`: small where photos differ in many ways, so that any
            two are as unlike as any others, and large where they differ in few.
        agreement: cosine of the class means less their mean over classes with the texts less theirs; 0 if negative.
        variance_of_texts: half of the mean squared distance of texts of different classes.
    """

    similarity: float
    variance: float
    spread: float
    agreement: float
    variance_of_texts: float


def likeness(shots: FewShot) -> Likeness:
    """Compare the photos of different classes with each other, and their means with the texts."""
    n_classes = shots.n_classes
    sizes = torch.bincount(shots.labels, minlength=n_classes)
    means = class_sums(shots.features, shots.labels, n_classes=n_classes) / sizes[:, None]  # (C, D)
    similarity = _of_others(means)
    variance = max(LEAST_VARIANCE, 1 - similarity)
    of_squares = _mean_square(shots)
    n_pairs = n_classes * (n_classes - 1) / 2
    measured = n_pairs * max(0.0, of_squares - similarity**2) / variance**2
    spread = math.sqrt((measured + PAIRS * USUAL**2) / (n_pairs + PAIRS))
    of_photos = means - means.mean(dim=0)
    of_texts = shots.texts.T - shots.texts.mean(dim=1)
    lengths = float(of_photos.norm()) * float(of_texts.norm())
    agreement = 0.0
    if lengths > 0:
        agreement = max(0.0, float((of_photos * of_texts).sum()) / lengths)
    variance_of_texts = max(LEAST_VARIANCE, 1 - _of_others(shots.texts.T))
    return Likeness(similarity, variance, spread, agreement, variance_of_texts)


def _of_others(vectors: Tensor) -> float:
    """Mean product of two different vectors, (C, D); 0 of a single one.

    That of class means is the mean over pairs of classes of the mean cosine of their photos.
    """
    of_pairs = float(vectors.sum(dim=0).square().sum() - vectors.square().sum())
    return of_pairs / max(1, len(vectors) * (len(vectors) - 1))


def _mean_square(shots: FewShot) -> float:
    """Mean squared cosine of photos of different classes, each pair of classes counting the same."""
    weighted = shots.weights.sqrt() * shots.features
    n, size = weighted.shape
    products = weighted @ weighted.T if n <= size else weighted.T @ weighted
    total = float(products.square().sum())
    of_one_class = 0.0
    for rows in shots.rows_of_classes:
        of_one_class += float((weighted[rows] @ weighted[rows].T).square().sum())
    # The weights of a class's photos sum up to n / C, so those of two classes to its square.
    n_pairs = max(1, shots.n_classes * (shots.n_classes - 1))
    return max(0.0, total - of_one_class) / (n_pairs * (n / shots.n_classes) ** 2)


def noise(shots: FewShot) -> float:
    """Mean over classes of 1 / n, the variance of a class mean of n photos as a share of that of one: above 0, to 1."""
    sizes = torch.bincount(shots.labels, minlength=shots.n_classes).double()
    return float((1 / sizes).mean())


def unevenness(shots: FewShot) -> float:
    """How many times as noisy the class means are as if all classes had as many photos: 1 or more.

    Ridge weighs each class as if they had.
    """
    photos_per_class = len(shots.labels) / shots.n_classes
    return photos_per_class * noise(shots)
