"""How many photos a class's text counts as, before any photo is left out.

Texts that lie about their mean as the photos of the classes lie about theirs know much, and count as more photos than
texts that lie otherwise. Left-out photos then move this number (`wsoup.heads.choose`), the more of them the further.

The formula was chosen on folders of photographs, for heads that hardly ever fall below their texts, and judged on other
folders (docs/notes/heads.md).
"""

from __future__ import annotations

import torch

from wsoup.heads.fewshot import FewShot
from wsoup.heads.prototypes import class_means

MOST = 12.0
"""Photos that a text of two classes counts as where texts and photos agree entirely, but for `OF_CLASSES`."""
LEAST = 0.02
"""Added to the agreement: few photos cannot show that texts know nothing."""
POWER = 0.7
OF_CLASSES = 0.3
"""Power of the number of classes: the more there are, the less of an agreement is chance, and the less caution."""
OF_UNEVENNESS = 2
"""Power of `unevenness`."""


def photos_per_text(shots: FewShot) -> float:
    """How many photos of its class a text counts as: a positive number."""
    known = (agreement(shots) + LEAST) ** POWER
    return float(MOST * known / shots.n_classes**OF_CLASSES * unevenness(shots) ** OF_UNEVENNESS)


def agreement(shots: FewShot) -> float:
    """Cosine of the class means of the photos and the texts, each less their mean over classes; 0 if it is negative."""
    means = class_means(shots.features, shots.labels, n_classes=shots.n_classes)  # (C, D)
    of_photos = means - means.mean(dim=0)
    of_texts = shots.texts.T - shots.texts.mean(dim=1)
    lengths = of_photos.norm() * of_texts.norm()
    if lengths == 0:
        return 0.0
    cosine = float((of_photos * of_texts).sum() / lengths)
    return max(0.0, cosine)


def unevenness(shots: FewShot) -> float:
    """Mean of the classes' numbers of photos times the mean of their inverses: 1 if all classes have as many.

    A class mean of n photos has a variance of 1 / n. So the means of an uneven folder are as noisy as those of an even
    one of so many times fewer photos, while ridge weighs each class as if all had as many.
    """
    sizes = torch.bincount(shots.labels, minlength=shots.n_classes).double()
    return float(sizes.mean() * (1 / sizes).mean())
