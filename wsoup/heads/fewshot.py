"""The few-shot images that a head is fitted to.

Whatever is chosen for a head is chosen by functions of a `FewShot`, which therefore cannot see any other image.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from wsoup.base.errors import DataError, MismatchError, ParamsError

SAME = 1e-3
"""Distance of features below which two photos are the same one; half precision moves a feature by about 5e-4."""
ROWS = 4096
"""Images compared with all others at a time."""
SHOWN = 3
"""Class names shown in an error."""


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
        order = torch.argsort(self.labels, stable=True)
        starts = sizes.cumsum(0) - sizes
        folds = torch.empty_like(self.labels)
        folds[order] = torch.arange(len(order)) - starts[self.labels[order]]
        return torch.where(sizes[self.labels] > 1, folds, -1)

    @property
    def n_folds(self) -> int:
        """Number of folds of leave-one-shot-out; 0 if no class has two images."""
        return int(self.folds.max()) + 1

    @cached_property
    def one_hot(self) -> Tensor:
        """Y (n, C) float64."""
        return torch.nn.functional.one_hot(self.labels, self.n_classes).to(self.features.dtype)

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
        DataError: fewer than two classes, a class without an image, or the same photo under two labels.
        MismatchError: texts of another size.
        ParamsError: a logit scale that is not positive and finite.
    """
    if not 0 < logit_scale < float("inf"):
        raise ParamsError(f"logit_scale is {logit_scale}; expected a number above 0, such as model.logit_scale.exp()")
    if texts.shape != (features.shape[1], len(names)):
        expected = (features.shape[1], len(names))
        raise MismatchError(f"class texts have shape {tuple(texts.shape)}; expected {expected}, features by classes")
    if len(names) < 2:
        raise DataError("a head needs two classes or more")
    x, y = features.double().cpu(), labels.cpu()
    kept = torch.ones(len(y), dtype=torch.bool)
    for first, second in _duplicates(x):
        if y[first] != y[second]:
            pair = f"{names[int(y[first])]!r} and {names[int(y[second])]!r}"
            raise DataError(f"images {first} and {second} are the same photo, labelled {pair}; correct one label")
        kept[second] = False
    missing = sorted({*range(len(names))} - {*y[kept].tolist()})
    if missing:
        shown = ", ".join(repr(names[label]) for label in missing[:SHOWN])
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise DataError(
            f"no image of {shown}{more}: a head needs one of each class; add it, or leave the class out of class_names"
        )
    n_dropped = int((~kept).sum())
    note = f"dropped {n_dropped} of {len(y)} images as duplicates" if n_dropped else ""
    return FewShot(x[kept], y[kept], texts.double().cpu(), float(logit_scale)), note


def _duplicates(features: Tensor) -> list[tuple[int, int]]:
    """Pairs (earlier row, later row) of the same photo."""
    pairs = []
    for start in range(0, len(features), ROWS):
        later = features[start : start + ROWS]
        distances = torch.cdist(later, features[: start + len(later)])
        for row, column in (distances < SAME).nonzero().tolist():
            if column < start + row:
                pairs.append((column, start + row))
    return pairs
