"""How many photos a class's text counts as, before any photo is left out.

Texts that lie about their mean as the classes' photos lie about theirs know much, and count as more photos than texts
that lie otherwise. Where the photos of different classes lie far apart, photos know much, and a text counts as fewer.
Left-out photos then move this number (`wsoup.heads.choose`), the more of them the further.

The formula was chosen on folders of photographs, for heads that hardly ever fall below their texts; no folders were
kept apart to confirm it (docs/notes/heads.md).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from wsoup.core.alignment import class_sums
from wsoup.heads.fewshot import FewShot

SCALE = 15.0
"""Photos that a text would count as with an agreement and a distance of 1, but for `OF_CLASSES`."""
LEAST = 0.02
"""Added to the agreement: few photos cannot show that texts know nothing."""
NEAREST = 0.1
"""Smallest distance that is believed."""
OF_CLASSES = 0.3
"""Power of the number of classes: the more there are, the less of an agreement is chance, and the less caution."""
OF_NOISE = 0.4
"""Power of the noise of class means: the distance of noisy means is larger than that of the classes."""
OF_UNEVENNESS = 2
"""Power of the unevenness of the classes."""


class Likeness(NamedTuple):
    """How the class means of photos, less their mean over classes, lie beside the texts, less theirs.

    Attributes:
        agreement: their cosine; 0 if it is negative.
        distance: the variance of the class means over classes: 1 if classes are at right angles and each is a point.
    """

    agreement: float
    distance: float


def photos_per_text(shots: FewShot) -> float:
    """How many photos of its class a text counts as: a positive number."""
    of = likeness(shots)
    known = (of.agreement + LEAST) / max(of.distance, NEAREST) / shots.n_classes**OF_CLASSES
    noisy = noise(shots) ** OF_NOISE * unevenness(shots) ** OF_UNEVENNESS
    return SCALE * known * noisy


def likeness(shots: FewShot) -> Likeness:
    """Compare the class means of the photos with the texts."""
    sizes = torch.bincount(shots.labels, minlength=shots.n_classes)
    means = class_sums(shots.features, shots.labels, n_classes=shots.n_classes) / sizes[:, None]  # (C, D)
    of_photos = means - means.mean(dim=0)
    of_texts = shots.texts.T - shots.texts.mean(dim=1)
    length = float(of_photos.norm())
    lengths = length * float(of_texts.norm())
    cosine = 0.0
    if lengths > 0:
        cosine = float((of_photos * of_texts).sum()) / lengths
    return Likeness(agreement=max(0.0, cosine), distance=length**2 / max(1, shots.n_classes - 1))


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
