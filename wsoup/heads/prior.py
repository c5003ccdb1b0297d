"""How many photos a class's text counts as, before any photo is left out.

Texts that lie about their mean as the classes' photos lie about theirs know much, and count as more photos than texts
that lie otherwise. Where photos of different classes look alike, one photo says little of its class, and a text counts
as more of them. Left-out photos then move this number (`wsoup.heads.choose`), the more of them the further.

The formula was chosen on folders of photographs, for heads that hardly ever fall below their texts nor below the means
of their photos; no folders were kept apart to confirm it (docs/notes/heads.md).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from wsoup.core.alignment import class_sums
from wsoup.heads.fewshot import FewShot

SCALE = 70.0
"""Photos that a text would count as with an agreement and a similarity of 1."""
LEAST = 0.01
"""Added to both: few photos cannot show that texts know nothing, or that classes have nothing in common."""
MOST_SIMILAR = 0.4
"""Largest similarity that is believed: where all photos of an encoder lie in a cone, as CLIP's do, all are alike."""
FEWEST = 0.15
"""Fewest photos that a text counts as."""
OF_NOISE = 0.2
"""Power of the noise of class means: the fewer photos a mean is of, the smaller its agreement looks."""
OF_UNEVENNESS = 2
"""Power of the unevenness of the classes."""


class Likeness(NamedTuple):
    """How the class means of photos lie beside the texts, and beside each other.

    Attributes:
        agreement: cosine of the class means less their mean over classes with the texts less theirs; 0 if negative.
        similarity: mean cosine of photos of different classes, each pair of classes counting the same; 0 if negative.
    """

    agreement: float
    similarity: float


def photos_per_text(shots: FewShot) -> float:
    """How many photos of its class a text counts as: a positive number."""
    of = likeness(shots)
    known = (of.agreement + LEAST) * (min(of.similarity, MOST_SIMILAR) + LEAST)
    noisy = noise(shots) ** OF_NOISE * unevenness(shots) ** OF_UNEVENNESS
    return max(FEWEST, SCALE * known * noisy)


def likeness(shots: FewShot) -> Likeness:
    """Compare the class means of the photos with the texts and with each other."""
    sizes = torch.bincount(shots.labels, minlength=shots.n_classes)
    means = class_sums(shots.features, shots.labels, n_classes=shots.n_classes) / sizes[:, None]  # (C, D)
    of_photos = means - means.mean(dim=0)
    of_texts = shots.texts.T - shots.texts.mean(dim=1)
    lengths = float(of_photos.norm()) * float(of_texts.norm())
    cosine = 0.0
    if lengths > 0:
        cosine = float((of_photos * of_texts).sum()) / lengths
    # The mean over pairs of classes of the product of their means is that of the cosines of their photos.
    of_pairs = float(means.sum(dim=0).square().sum() - means.square().sum())
    n_pairs = max(1, shots.n_classes * (shots.n_classes - 1))
    return Likeness(agreement=max(0.0, cosine), similarity=max(0.0, of_pairs / n_pairs))


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
