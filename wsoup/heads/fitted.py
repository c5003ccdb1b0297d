"""What every head comes down to: a linear part, and a part that looks at the few-shot images near an image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Fitted:
    """logits = f W + b + exp(-sharpness (1 - f F'^T)) A.

    Attributes:
        classifier: W (D, C).
        bias: b (C,).
        support: F' (n, D), the few-shot images that are looked at; no rows where the head is linear.
        weights: A (n, C).
        sharpness: how fast a few-shot image's say falls with distance.
    """

    classifier: Tensor
    bias: Tensor
    support: Tensor
    weights: Tensor
    sharpness: float

    @classmethod
    def linear(cls, classifier: Tensor, bias: Tensor | None = None) -> Fitted:
        """A head without a kernel."""
        size, n_classes = classifier.shape
        none = classifier.new_zeros(0, size), classifier.new_zeros(0, n_classes)
        return cls(classifier, classifier.new_zeros(n_classes) if bias is None else bias, *none, 0.0)

    @property
    def is_linear(self) -> bool:
        """Whether `classifier` and `bias` are all of it."""
        return not len(self.support)

    @property
    def n_numbers(self) -> int:
        """Numbers that are stored."""
        linear = self.classifier.numel() + self.bias.numel()
        return linear + self.support.numel() + self.weights.numel()

    def logits(self, features: Tensor) -> Tensor:
        """(N, D) -> (N, C)."""
        linear = features @ self.classifier + self.bias
        if self.is_linear:
            return linear
        return linear + kernel(features, self.support, sharpness=self.sharpness) @ self.weights

    def to(self, dtype: torch.dtype) -> Fitted:
        """The same in another type, laid out as it is read from a file: products then agree to the bit."""
        linear = self.classifier.to(dtype).contiguous(), self.bias.to(dtype).contiguous()
        return Fitted(*linear, self.support.to(dtype).contiguous(), self.weights.to(dtype).contiguous(), self.sharpness)


def kernel(features: Tensor, others: Tensor, *, sharpness: float) -> Tensor:
    """exp(-b (1 - f.f')) of rows of length 1: (N, D), (n, D) -> (N, n).

    A Gaussian of their distance, of variance 1 / b.
    """
    return torch.exp(-sharpness * (1 - features @ others.T))
