"""`FewShot`: the few labelled images that a head is fitted to.

Whatever is chosen for a head is chosen by functions of a `FewShot`, which therefore cannot see any other image.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from wsoup.base.errors import DataError, MismatchError, one_line
from wsoup.heads.duplicates import originals

BLOCK = 128
"""Images whose logits are made at a time, so that thousands of classes take little memory."""


@dataclass(frozen=True)
class FewShot:
    """Labelled images of every class, the class texts, and the logit scale s.

    Attributes:
        features: F (n, D) float64, L2-normalised.
        labels: (n,) int64, each in [0, C).
        texts: T (D, C) float64, columns of length 1.
        logit_scale: s, above 0.
    """

    features: Tensor
    labels: Tensor
    texts: Tensor
    logit_scale: float

    @property
    def n_classes(self) -> int:
        """C."""
        return self.texts.shape[1]

    @cached_property
    def folds(self) -> Tensor:
        """Fold of each image, which is its index within its class: (n,) int64; -1 for the only image of a class."""
        sizes = torch.bincount(self.labels, minlength=self.n_classes)
        firsts = sizes.cumsum(dim=0) - sizes  # (C,) where each class begins when images are sorted by class
        by_class = self.labels.argsort(stable=True)
        folds = torch.empty_like(self.labels)
        folds[by_class] = torch.arange(len(self.labels)) - firsts[self.labels[by_class]]
        # Without its only image a class would have no head to test the image with.
        return torch.where(sizes[self.labels] > 1, folds, -1)

    @property
    def n_folds(self) -> int:
        """Number of folds of leave-one-shot-out; 0 if no class has two images."""
        return int(self.folds.max()) + 1

    @cached_property
    def rows_of_folds(self) -> list[Tensor]:
        """The images of each fold, ascending."""
        return [(self.folds == fold).nonzero()[:, 0] for fold in range(self.n_folds)]

    @cached_property
    def rows_of_classes(self) -> list[Tensor]:
        """The images of each class, ascending."""
        sizes = torch.bincount(self.labels, minlength=self.n_classes)
        return list(self.labels.argsort(stable=True).split(sizes.tolist()))

    @cached_property
    def weights(self) -> Tensor:
        """Weights with which each class counts the same, and all images n: (n, 1) float64."""
        sizes = torch.bincount(self.labels, minlength=self.n_classes)
        weights = len(self.labels) / (self.n_classes * sizes.double())
        return weights[self.labels][:, None]

    def text_logits(self, features: Tensor) -> Tensor:
        """s f.T: (N, D) -> (N, C)."""
        return self.logit_scale * features @ self.texts


def checked(
    features: Tensor, labels: Tensor, *, texts: Tensor, logit_scale: float, names: list[str]
) -> tuple[FewShot, str]:
    """Validate few-shot images and drop duplicates, since a photo in two folds would validate itself.

    Args:
        features: (n, D), finite, L2-normalised.
        labels: (n,) int64 in [0, C).
        texts: (D, C), finite.
        logit_scale: s.
        names: C class names, for error messages.

    Returns:
        The images without duplicates, and a note on how many were dropped, or "".

    Raises:
        DataError: a class without an image, or the same photo under two labels.
        MismatchError: texts of another size.
    """
    expected = (features.shape[1], len(names))
    if texts.shape != expected:
        raise MismatchError(
            f"image features have {expected[0]} dimensions, and the texts of {texts.shape[1]} classes "
            f"{texts.shape[0]}: they are of different models, or of other classes than the {len(names)} names"
        )
    features = features.double().cpu()
    labels = labels.cpu()
    firsts = originals(features)
    with_another_label = (labels[firsts] != labels).nonzero()[:, 0].tolist()
    if with_another_label:
        second = with_another_label[0]
        first = int(firsts[second])
        pair = f"{names[int(labels[first])]!r} and {names[int(labels[second])]!r}"
        raise DataError(f"images {first} and {second} are the same photo, labelled {pair}; correct one label")
    kept = firsts == torch.arange(len(firsts))
    with_images = set(labels[kept].tolist())
    missing = [repr(name) for label, name in enumerate(names) if label not in with_images]
    if missing:
        shown = one_line(", ".join(missing), limit=200)
        raise DataError(
            f"no image of {shown}: a head needs one of each class; add it, or leave the class out of class_names"
        )
    n_dropped = int((~kept).sum())
    note = ""
    if n_dropped:
        note = f"dropped {n_dropped} of {len(labels)} images as duplicates"
    shots = FewShot(features[kept], labels[kept], texts.double().cpu(), float(logit_scale))
    return shots, note
