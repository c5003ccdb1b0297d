"""Accuracy of a classifier as a count, and its gain over a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from wsoup.api.arguments import Features, Labels, are_names, checked_classifier, checked_labels
from wsoup.base.arguments import Share, as_list, at_the_door
from wsoup.base.class_names import Names
from wsoup.base.errors import DataError, MismatchError, shown_value
from wsoup.base.number_of import number_of
from wsoup.core.scoring import Scores
from wsoup.statistics.noise import compare_images


@dataclass(frozen=True)
class Gain:
    """Gain of a classifier over a baseline on the same images.

    Attributes:
        n_gained, n_lost: images that only the classifier gets right, and that only the baseline gets right.
        points: the gain in per cent of all images.
        low, high: its confidence interval (`wsoup.statistics.noise`).
        confidence: level of the interval.
    """

    n_gained: int
    n_lost: int
    points: float
    low: float
    high: float
    confidence: float

    @classmethod
    def of(cls, right: np.ndarray, baseline_right: np.ndarray, *, confidence: float) -> Gain:
        """The gain, given which images each gets right: two (N,) bool arrays."""
        # One dataset without a name, and one seed.
        gain = compare_images({"": right[None]}, {"": baseline_right[None]}).fixed
        low, high = gain.interval(confidence)
        n_gained = int((right & ~baseline_right).sum())
        n_lost = int((baseline_right & ~right).sum())
        # An interval of few images may reach beyond what a share can gain or lose.
        return cls(n_gained, n_lost, gain.mean, max(-100.0, low), min(100.0, high), confidence)

    def __str__(self) -> str:
        points = f"{self.points:+.2f} points [{self.low:+.2f}, {self.high:+.2f}]"
        if not self.n_gained and not self.n_lost:
            points += ", no difference"
        elif self.low <= 0 <= self.high:
            points += ", which may be noise"
        return f"{points} ({number_of(self.n_gained, 'image')} gained, {self.n_lost:,} lost)"


@dataclass(frozen=True)
class Accuracy:
    """A count of correct images.

    Attributes:
        n_correct, n_images: counts.
        gain: over the baseline, if one was given.
    """

    n_correct: int
    n_images: int
    gain: Gain | None = None

    @property
    def percent(self) -> float:
        """Per cent of the images."""
        return 100.0 * self.n_correct / self.n_images

    def __str__(self) -> str:
        counted = f"{self.percent:.2f} % ({self.n_correct} of {self.n_images})"
        if self.gain is None:
            return counted
        return f"{counted}, {self.gain}"


@runtime_checkable
class Predicts(Protocol):
    """A classifier with more than class weights: a head, or what `wsoup.adapt` or `Soup.autoclip` returns."""

    classifier: Tensor

    def predict(self, features: object) -> Tensor:
        """(N, D) -> (N,) int64 labels."""
        ...


@at_the_door
def zero_shot_accuracy(
    features: Features,
    labels: Labels,
    *,
    classifier: object,
    baseline: object = None,
    class_names: Names | None = None,
    confidence: Share = 0.95,
) -> Accuracy:
    """Count the images that a classifier gets right, and its gain over a baseline.

    Args:
        features: (N, D) image features, L2-normalised.
        labels: (N,) whole numbers in [0, C), or class names.
        classifier: (D, C), from `Soup.classifier` or `open_clip.build_zero_shot_classifier`; or a head; or what `adapt`
            or `Soup.autoclip` returns.
        baseline: another classifier, for example `soup.class_name_soup().classifier(...)`: class names alone.
        class_names: C names in label order: what the labels mean. A head has names of its own, which decide which of
            its answers are right, in whatever order; for it, labels alone are positions among its own names.
        confidence: level of the gain's interval (default 0.95).

    Raises:
        DataError, MismatchError: shapes that do not fit together, labels out of range, images of a class that a head
            does not have.
    """
    x = torch.as_tensor(features)
    right = _right(x, labels, classifier, class_names=class_names, name="classifier")
    gain = None
    if baseline is not None:
        _check_same_order(classifier, baseline, labels=labels, class_names=class_names)
        _check_as_many(classifier, baseline, n_features=x.shape[1], class_names=class_names)
        baseline_right = _right(x, labels, baseline, class_names=class_names, name="baseline")
        gain = Gain.of(right, baseline_right, confidence=confidence)
    return Accuracy(int(right.sum()), len(right), gain)


def _right(
    x: Tensor, labels: Labels, classifier: object, *, class_names: Sequence[str] | None, name: str
) -> np.ndarray:
    """(N,) bool: which images a classifier gets right."""
    own_names = _own_names(classifier)
    if own_names is not None:
        y = _in_its_order(labels, own_names, n_images=len(x), class_names=class_names, name=name)
    else:
        n_classes = _n_classes(classifier, n_features=x.shape[1], name=name)
        if class_names is None and are_names(labels):
            raise DataError(
                f"labels are class names, and nothing says which of the {n_classes} columns of {name} is which class; "
                "give class_names= in the order of its columns, or labels as numbers"
            )
        if class_names is None:
            class_names = [str(label) for label in range(n_classes)]
        if len(class_names) != n_classes:
            raise MismatchError(f"{name} has {n_classes} classes, class_names has {len(class_names)}")
        y = checked_labels(labels, n_images=len(x), class_names=class_names)
    if isinstance(classifier, Predicts):
        device = classifier.classifier.device
        return (classifier.predict(x.to(device)) == y.to(device)).cpu().numpy()
    weights = checked_classifier(classifier, n_features=x.shape[1], name=name)  # (C, D)
    right = Scores(x.to(weights.device), weights[None]).right(y.to(weights.device))
    return right[0].cpu().numpy()


def _own_names(classifier: object) -> Sequence[str] | None:
    """The class names that a head has, in its own order; None of a classifier without names."""
    if not isinstance(classifier, Predicts):
        return None
    return getattr(classifier, "class_names", None)


def _n_classes(classifier: object, *, n_features: int, name: str) -> int:
    if isinstance(classifier, Predicts):
        return classifier.classifier.shape[1]
    return len(checked_classifier(classifier, n_features=n_features, name=name))


def _in_its_order(
    labels: Labels, own_names: Sequence[str], *, n_images: int, class_names: Sequence[str] | None, name: str
) -> Tensor:
    """Labels (N,) as positions among a head's own classes, which decide: `class_names` only says what labels mean.

    Raises:
        MismatchError: an image of a class that the head does not have, or names that do not tell its classes apart.
    """
    if class_names is None:
        step = "fit it to this class, too, or leave out these images"
        return checked_labels(
            labels, n_images=n_images, class_names=own_names, whose=f"classes that {name} has", step=step
        )
    y = checked_labels(labels, n_images=n_images, class_names=class_names)
    if list(class_names) == list(own_names):
        return y
    position = {own: label for label, own in enumerate(own_names)}
    if len(position) < len(own_names):
        raise MismatchError(
            f"{name} has classes of one name, and class_names is in another order; give it in its order"
        )
    used = [class_names[label] for label in y.unique().tolist()]
    missing = [one for one in used if one not in position]
    if missing:
        raise MismatchError(
            f"{name} does not have the class {shown_value(missing[0])}, which images have by class_names; its classes "
            f"are {shown_value(list(own_names))}: fit it to these classes, or leave out these images"
        )
    in_its_order = torch.tensor([position.get(one, 0) for one in class_names])
    return in_its_order[y.cpu()]


def _check_same_order(classifier: object, baseline: object, *, labels: Labels, class_names: object) -> None:
    """Refuse two heads of which nobody says whose classes the labels count; MismatchError."""
    first = _own_names(classifier)
    second = _own_names(baseline)
    if class_names is None and first is not None and second is not None and list(first) != list(second):
        values = as_list(labels)
        if not (isinstance(values, Sequence) and all(isinstance(value, str) for value in values)):
            raise MismatchError(
                "classifier and baseline have other classes, or the same in another order; give class_names= in the "
                "order that the labels have"
            )


def _check_as_many(classifier: object, baseline: object, *, n_features: int, class_names: object) -> None:
    """Refuse a baseline for other classes, where no names say so: label 3 would mean two things; MismatchError."""
    if class_names is not None:
        return
    first = _n_classes(classifier, n_features=n_features, name="classifier")
    second = _n_classes(baseline, n_features=n_features, name="baseline")
    if first != second:
        raise MismatchError(
            f"classifier has {first} classes and baseline {second}; make the baseline for the same classes, in the "
            "same order"
        )
