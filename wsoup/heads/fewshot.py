"""The few-shot images that a head is made of, and all that whatever is chosen for it may see.

Functions that choose take a `FewShot` and no other images: that is how nothing else can be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from wsoup.core.errors import DataError, MismatchError, ParamsError

SAME = 1e-3
"""Two features nearer than this are the same photo: half precision moves a feature by about 5e-4."""
ROWS = 4096
"""Images compared with all others at a time."""
SHOWN = 3


@dataclass(frozen=True)
class FewShot:
    """Labelled images of every class, with the class texts and their logit scale s.

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
    def shots(self) -> Tensor:
        """Which shot of its class each image is, in the order given: (n,) int64 from 0."""
        order = torch.argsort(self.labels, stable=True)
        sizes = torch.bincount(self.labels, minlength=self.n_classes)
        starts = sizes.cumsum(0) - sizes
        places = torch.empty_like(self.labels)
        places[order] = torch.arange(len(order)) - starts[self.labels[order]]
        return places

    @cached_property
    def folds(self) -> Tensor:
        """In which fold each image is left out: (n,) int64; -1 for the only image of a class, which always stays."""
        sizes = torch.bincount(self.labels, minlength=self.n_classes)
        return torch.where(sizes[self.labels] > 1, self.shots, -1)

    @property
    def n_folds(self) -> int:
        """Folds of leave-one-shot-out; 0 where no class has two images."""
        return int(self.folds.max()) + 1

    @cached_property
    def one_hot(self) -> Tensor:
        """Y (n, C) float64."""
        return torch.nn.functional.one_hot(self.labels, self.n_classes).to(self.features.dtype)

    def text_logits(self, features: Tensor) -> Tensor:
        """s f.T: (N, D) -> (N, C)."""
        return self.logit_scale * features @ self.texts

    def without(self, fold: int) -> FewShot:
        """All images but those of one fold."""
        kept = self.folds != fold
        return FewShot(self.features[kept], self.labels[kept], self.texts, self.logit_scale)


def checked(
    features: Tensor, labels: Tensor, *, texts: Tensor, logit_scale: float, names: list[str]
) -> tuple[FewShot, str]:
    """Images that a head can be made of, and a line on what was left out ("" where nothing was).

    The same photo twice under one label counts once: left in, one of them would vouch for the other.

    Args:
        features: (n, D), finite, L2-normalised.
        labels: (n,) int64 in [0, C).
        texts: (D, C), finite.
        logit_scale: s.
        names: C class names, for what is said.

    Raises:
        DataError: fewer than two classes, a class without an image, or the same photo under two labels.
        MismatchError: texts of another size.
        ParamsError: a logit scale that is no number above 0.
    """
    if not 0 < logit_scale < float("inf"):
        raise ParamsError(f"logit_scale is {logit_scale}; expected a number above 0, such as model.logit_scale.exp()")
    if texts.shape != (features.shape[1], len(names)):
        expected = (features.shape[1], len(names))
        raise MismatchError(f"class texts have shape {tuple(texts.shape)}; expected {expected}, features by classes")
    if len(names) < 2:
        raise DataError("a head needs two classes or more: with one there is nothing to tell apart")
    x, y = features.double().cpu(), labels.cpu()
    kept = torch.ones(len(y), dtype=torch.bool)
    for first, second in _same(x):
        if y[first] != y[second]:
            one, other = names[int(y[first])], names[int(y[second])]
            raise DataError(f"images {first} and {second} are the same photo, of {one!r} and of {other!r}; mend one")
        kept[second] = False
    missing = sorted({*range(len(names))} - {*y[kept].tolist()})
    if missing:
        shown = ", ".join(repr(names[label]) for label in missing[:SHOWN])
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise DataError(
            f"no image of {shown}{more}: a head needs one of each class; add it, or leave the class out of class_names"
        )
    twice = int((~kept).sum())
    said = f"{twice} of {len(y)} images are there twice and count once" if twice else ""
    return FewShot(x[kept], y[kept], texts.double().cpu(), float(logit_scale)), said


def _same(features: Tensor) -> list[tuple[int, int]]:
    """Pairs (earlier, later) of rows that are the same photo."""
    pairs = []
    for start in range(0, len(features), ROWS):
        later = features[start : start + ROWS]
        distances = torch.cdist(later, features[: start + len(later)])
        for row, column in (distances < SAME).nonzero().tolist():
            if column < start + row:
                pairs.append((column, start + row))
    return pairs
