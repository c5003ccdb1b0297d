"""Prototypes: a text and the mean of the images, for each class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from wsoup.core.alignment import class_sums
from wsoup.core.class_texts import normalize
from wsoup.heads.fewshot import BLOCK, FewShot


def class_means(features: Tensor, labels: Tensor, *, n_classes: int) -> Tensor:
    """The normalised mean of each class's images, in the dtype of the features: (n, D), (n,) -> (C, D)."""
    # A normalised sum is a normalised mean, so nothing is divided by the number of images.
    return normalize(class_sums(features, labels, n_classes=n_classes)).to(features.dtype)


@dataclass(frozen=True)
class Prototypes:
    """s f.T + a f.mu_c, with mu_c the normalised mean of the class's images (Snell et al., arXiv 1703.05175).

    The paper takes the nearest mean by squared distance, which for means of length 1 is the largest f.mu_c.
    """

    weight: float
    """a / s."""

    @property
    def photos_per_text(self) -> float:
        """A text and a mean of equal weight count the same."""
        return 1 / self.weight

    @classmethod
    def of(cls, photos_per_text: float) -> Prototypes:
        """The setting for texts that count as so many photos."""
        return cls(1 / photos_per_text)

    @classmethod
    def settings(cls) -> list[Prototypes]:
        """Weights from almost the texts alone to one that almost ignores them."""
        return [Prototypes(2.0**power) for power in range(-5, 7)]

    @classmethod
    def left_out(cls, shots: FewShot) -> PrototypesLeftOut:
        """Prototypes of the images outside each fold."""
        return PrototypesLeftOut(shots)

    def fit(self, shots: FewShot) -> Tensor:
        """W (D, C)."""
        means = class_means(shots.features, shots.labels, n_classes=shots.n_classes)
        weights = shots.texts + self.weight * means.T
        return shots.logit_scale * weights


@dataclass(frozen=True)
class MeansLeftOut:
    """Class means without each fold, whose images are subtracted from the sums of their classes."""

    shots: FewShot

    @cached_property
    def sums(self) -> Tensor:
        """Sums of all images of each class, (C, D)."""
        return class_sums(self.shots.features, self.shots.labels, n_classes=self.shots.n_classes)

    def means(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The images of each fold, and the class means (C, D) of all others."""
        for fold in self.shots.rows_of_folds:
            features, labels = self.shots.features[fold], self.shots.labels[fold]
            of_fold = class_sums(features, labels, n_classes=self.shots.n_classes)
            yield fold, normalize(self.sums - of_fold)


class PrototypesLeftOut(MeansLeftOut):
    """`Prototypes` without each fold."""

    def logits(self, setting: Prototypes) -> Iterator[tuple[Tensor, Tensor]]:
        """See `wsoup.heads.kinds.LeftOut`."""
        shots = self.shots
        for fold, means in self.means():
            for rows in fold.split(BLOCK):
                features = shots.features[rows]
                texts = shots.text_logits(features)
                cosines = features @ means.T
                yield rows, texts + shots.logit_scale * setting.weight * cosines


@dataclass(frozen=True)
class ClassMeans:
    """f.mu_c alone: what the labels do without any text. There is one setting."""

    @property
    def photos_per_text(self) -> float:
        """Nothing is chosen, so any number would do."""
        return 1.0

    @classmethod
    def of(cls, photos_per_text: float) -> ClassMeans:
        """The only setting."""
        return cls()

    @classmethod
    def settings(cls) -> list[ClassMeans]:
        """The only setting."""
        return [cls()]

    @classmethod
    def left_out(cls, shots: FewShot) -> ClassMeansLeftOut:
        """Means of the images outside each fold."""
        return ClassMeansLeftOut(shots)

    def fit(self, shots: FewShot) -> Tensor:
        """W (D, C)."""
        return shots.logit_scale * class_means(shots.features, shots.labels, n_classes=shots.n_classes).T


class ClassMeansLeftOut(MeansLeftOut):
    """`ClassMeans` without each fold."""

    def logits(self, setting: ClassMeans) -> Iterator[tuple[Tensor, Tensor]]:
        """See `wsoup.heads.kinds.LeftOut`."""
        shots = self.shots
        for fold, means in self.means():
            for rows in fold.split(BLOCK):
                yield rows, shots.logit_scale * shots.features[rows] @ means.T
