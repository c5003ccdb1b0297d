"""Prototypes: a text and the mean of the images, for each class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from wsoup.core.alignment import class_sums
from wsoup.core.class_texts import normalize
from wsoup.heads.fewshot import BLOCK, FewShot
from wsoup.heads.one_shot import one_shot_weight


@dataclass(frozen=True)
class Prototypes:
    """s f.T + a f.mu_c, with mu_c the normalised mean of the class's images (Snell et al., arXiv 1703.05175).

    The paper takes the nearest mean by squared distance, which for means of length 1 is the largest f.mu_c.
    """

    weight: float
    """a / s."""

    @classmethod
    def settings(cls) -> list[Prototypes]:
        """Weights from 0, the texts alone, up to one that almost ignores them."""
        return [Prototypes(weight) for weight in (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)]

    @classmethod
    def one_shot(cls, shots: FewShot) -> Prototypes:
        """The less the texts know, the more weight."""
        return Prototypes(one_shot_weight(shots))

    @classmethod
    def left_out(cls, shots: FewShot) -> PrototypesLeftOut:
        """Prototypes of the images outside each fold."""
        return PrototypesLeftOut(shots)

    def fit(self, shots: FewShot) -> Tensor:
        """W (D, C)."""
        # A normalised sum is a normalised mean, so nothing is divided by the number of images.
        means = normalize(class_sums(shots.features, shots.labels, n_classes=shots.n_classes))  # (C, D)
        weights = shots.texts + self.weight * means.T
        return shots.logit_scale * weights


@dataclass(frozen=True)
class PrototypesLeftOut:
    """`Prototypes` without each fold, whose images are subtracted from the sums of their classes."""

    shots: FewShot

    @cached_property
    def sums(self) -> Tensor:
        """Sums of all images of each class, (C, D)."""
        return class_sums(self.shots.features, self.shots.labels, n_classes=self.shots.n_classes)

    def logits(self, settings: Sequence[Prototypes]) -> Iterator[tuple[Prototypes, Tensor, Tensor]]:
        """See `wsoup.heads.kinds.LeftOut`."""
        shots = self.shots
        for fold in shots.rows_of_folds:
            of_fold = class_sums(shots.features[fold], shots.labels[fold], n_classes=shots.n_classes)
            means = normalize(self.sums - of_fold)
            for rows in fold.split(BLOCK):
                features = shots.features[rows]
                texts = shots.text_logits(features)
                cosines = features @ means.T
                for setting in settings:
                    yield setting, rows, texts + shots.logit_scale * setting.weight * cosines
