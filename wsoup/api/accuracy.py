"""Accuracy of a zero-shot classifier as a count, and what it gains over another one on the same images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from wsoup.api.arguments import checked_features, checked_labels, checked_names
from wsoup.core.errors import DataError, MismatchError, ParamsError
from wsoup.core.scoring import correct, normalize


@dataclass(frozen=True)
class Gain:
    """What a classifier gains over a baseline on the same images.

    Attributes:
        n_gained, n_lost: images that only the classifier gets right, and that only the baseline does.
        points: the gain, per cent of all images.
        low, high: its interval.
        confidence: of the interval.
    """

    n_gained: int
    n_lost: int
    points: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        noise = "" if self.low > 0 or self.high < 0 else ", which may be noise"
        return (
            f"{self.points:+.2f} points [{self.low:+.2f}, {self.high:+.2f}]{noise} "
            f"({self.n_gained} images gained, {self.n_lost} lost)"
        )


@dataclass(frozen=True)
class Accuracy:
    """A count of correct images.

    Attributes:
        n_correct, n_images: counts.
        gain: over the baseline, where one was given.
    """

    n_correct: int
    n_images: int
    gain: Gain | None = None

    @property
    def percent(self) -> float:
        """Correct images in per cent."""
        return 100.0 * self.n_correct / self.n_images

    def __str__(self) -> str:
        gain = f", {self.gain}" if self.gain else ""
        return f"{self.percent:.2f} % ({self.n_correct} of {self.n_images}){gain}"


def zero_shot_accuracy(
    features: Any,
    labels: Any,
    *,
    classifier: Any,
    baseline: Any = None,
    class_names: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> Accuracy:
    """How many images a classifier gets right, and how many more than a baseline.

    Args:
        features: (N, D) image features, L2-normalised.
        labels: (N,) whole numbers in [0, C), or class names.
        classifier: (D, C), from `Soup.classifier` or `open_clip.build_zero_shot_classifier`.
        baseline: another one, for example `soup.class_name_soup().classifier(...)`, class names without a soup.
        class_names: C names in label order, where labels are names.
        confidence: of the gain's interval: Agresti and Min's adjusted Wald interval for paired counts (Statistics in
            Medicine 24, 2005), with half an image added to each of the four cells.

    Raises:
        DataError, MismatchError: shapes that do not fit each other, labels out of range.
    """
    if not 0 < confidence < 1:
        raise ParamsError(f"confidence is {confidence}; expected a number between 0 and 1, such as 0.95")
    x = checked_features(features)
    right = _right(x, labels, classifier, class_names=class_names, name="classifier")
    counted = Accuracy(int(right.sum()), len(right))
    if baseline is None:
        return counted
    before = _right(x, labels, baseline, class_names=class_names, name="baseline")
    gained, lost = int((right & ~before).sum()), int((before & ~right).sum())
    return Accuracy(counted.n_correct, counted.n_images, paired_gain(gained, lost, n=len(right), confidence=confidence))


def paired_gain(n_gained: int, n_lost: int, *, n: int, confidence: float) -> Gain:
    """The gain of one classifier over another and its interval.

    Args:
        n_gained, n_lost: images that only the one gets right, and that only the other does.
        n: all images.
        confidence: of the interval.
    """
    middle = (n_gained - n_lost) / (n + 2)
    spread = math.sqrt((n_gained + n_lost + 1) - (n_gained - n_lost) ** 2 / (n + 2)) / (n + 2)
    half = NormalDist().inv_cdf((1 + confidence) / 2) * spread
    low, high = 100 * max(-1.0, middle - half), 100 * min(1.0, middle + half)
    return Gain(n_gained, n_lost, 100 * (n_gained - n_lost) / n, low, high, confidence)


def _right(features: Tensor, labels: Any, classifier: Any, *, class_names: Sequence[str] | None, name: str) -> Tensor:
    """(N,) bool: which images a classifier gets right."""
    weights = torch.as_tensor(classifier).detach().float()
    if weights.dim() != 2 or weights.shape[0] != features.shape[1]:
        raise MismatchError(
            f"{name} has shape {tuple(weights.shape)}; expected ({features.shape[1]}, C), features by classes"
        )
    if not torch.isfinite(weights).all():
        raise DataError(f"{name} holds NaN or infinity; make it again")
    names = [str(i) for i in range(weights.shape[1])] if class_names is None else checked_names(class_names)
    if len(names) != weights.shape[1]:
        raise MismatchError(f"{name} is of {weights.shape[1]} classes, class_names has {len(names)}")
    y = checked_labels(labels, n_images=len(features), class_names=names)
    device = weights.device
    return correct(features.to(device), y.to(device), normalize(weights.T)).cpu()
