"""What adaptation makes: a linear classifier of its own for a pile of images, or the texts' own answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wsoup.core.arrays import rows, tensor

SCORES_PER_BLOCK = 1 << 24
"""Logits held at a time (64 MiB in float32)."""


@dataclass(frozen=True)
class Adapted:
    """logits = f W + b, whichever of the two it is.

    Attributes:
        kind: ``em`` or ``center``, as asked for.
        classifier: W (D, C) float32, the logit scale in it.
        bias: b (C,) float32.
        adapted: whether it differs from the texts' own answer.
        note: in one line, why, with the figures that decided.
    """

    kind: str
    classifier: Tensor
    bias: Tensor
    adapted: bool
    note: str

    def logits(self, features: Any) -> Tensor:
        """(N, D) -> (N, C) float32."""
        return rows(features, name="features", size=len(self.classifier)) @ self.classifier + self.bias

    def predict_proba(self, features: Any) -> Tensor:
        """(N, D) -> (N, C) float32, rows of sum 1; not calibrated."""
        return self.logits(features).softmax(dim=1)

    def predict(self, features: Any) -> Tensor:
        """(N, D) -> (N,) int64, block by block; among equals the lowest label."""
        x = tensor(features, name="features")
        blocks = x.split(rows_at_once(self.bias)) if x.dim() else (x,)
        return torch.cat([self.logits(block).argmax(dim=1) for block in blocks])


def rows_at_once(classes: Tensor) -> int:
    """Images in a block, for as many classes as `classes` has entries."""
    return max(1, SCORES_PER_BLOCK // max(1, len(classes)))


def texts_alone(texts: Tensor, *, logit_scale: float, kind: str) -> Adapted:
    """The texts' own answer: (D, C)."""
    classifier = (logit_scale * texts.float()).T.contiguous().T  # a class's numbers beside each other, as centres have
    return Adapted(kind, classifier, texts.new_zeros(texts.shape[1]).float(), False, "")
