"""Few-shot images measured by what tells them apart.

Where all photos of an encoder lie in a cone, as CLIP's do, most of every feature is what all photos share. A regression
on such features learns mostly a number for each class, whatever the photo, which holds for no other style; and a target
of the logit scale, that of a cosine of 1, lies far beyond any difference of cosines. So the direction in which the
photos agree is scaled down to a small constant, the rest by the distance of photos of different classes, and targets
are as far apart as the logits of texts and photos that lie about their means alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from wsoup.heads.fewshot import FewShot
from wsoup.heads.likeness import likeness, noise

ROUGHLY = 0.1
"""How far photos may be from agreeing in a direction: the variance about 1 that costs as much as its length."""
CONSTANT = 0.25
"""Square of the constant that all photos share, for a photo of each class; of more photos, as much less."""
SMALLEST = 1e-3
"""Smallest scale of what photos share, in scales of the rest: photos around the origin share nothing."""


@dataclass(frozen=True)
class Differences:
    """A scale along one direction, and another at right angles to it.

    Attributes:
        direction: u (D,) of length 1, or zeros where photos agree in none.
        along, across: the two scales, positive.
        target: logit of the right class above the others, positive.
    """

    direction: Tensor
    along: float
    across: float
    target: float

    @classmethod
    def of(cls, shots: FewShot) -> Differences:
        """What tells these images apart."""
        alike = likeness(shots)
        across = 1 / math.sqrt(alike.variance)
        # g minimises the weighted squares of x g - 1, and `ROUGHLY` times the variance of its squared length.
        g = _solved(shots, penalty=ROUGHLY * alike.variance)
        length = float(g.norm())
        along = max(SMALLEST * across, math.sqrt(CONSTANT * noise(shots)) * length)
        target = shots.logit_scale * math.sqrt(alike.variance * alike.variance_of_texts)
        return cls(g / max(length, torch.finfo(g.dtype).tiny), along, across, target)

    def measured(self, shots: FewShot) -> FewShot:
        """The images by their differences, with texts whose logits of them are the same, and the scale of targets."""
        texts = _scaled(shots.texts, self.direction, along=1 / self.along, across=1 / self.across)
        features = _scaled(shots.features.T, self.direction, along=self.along, across=self.across).T
        return FewShot(features, shots.labels, texts * (shots.logit_scale / self.target), self.target)

    def classifier(self, weights: Tensor) -> Tensor:
        """Weights of measured images as weights of the images themselves: (D, C) -> (D, C)."""
        return _scaled(weights, self.direction, along=self.along, across=self.across)


def _solved(shots: FewShot, *, penalty: float) -> Tensor:
    """g (D,): (X'X + penalty I)^-1 X'1 with weighted images, by whichever system is smaller."""
    roots = shots.weights.sqrt()
    x = roots * shots.features
    n, size = x.shape
    if n <= size:
        system = x @ x.T
        system.diagonal().add_(penalty)
        return (x.T @ torch.linalg.solve(system, roots))[:, 0]
    system = x.T @ x
    system.diagonal().add_(penalty)
    return torch.linalg.solve(system, x.T @ roots)[:, 0]


def _scaled(columns: Tensor, direction: Tensor, *, along: float, across: float) -> Tensor:
    """Columns (D, k), scaled along a direction (D,) and at right angles to it."""
    shared = torch.outer(direction, direction @ columns)
    return across * columns + (along - across) * shared
