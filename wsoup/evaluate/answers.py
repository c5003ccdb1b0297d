"""What rows predict on one dataset: one pass over its images, from which counts, verdicts and flips are all taken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wsoup.core.linear import Linear
from wsoup.core.scoring import AT_ONCE, Mode, normalize
from wsoup.evaluate.rows import Row
from wsoup.evaluate.testsets import TestSet


@dataclass(frozen=True)
class Answers:
    """Predictions of R rows on one dataset, in both modes.

    Attributes:
        test: the dataset.
        rows: the rows.
        classes: text features (R, C, D) of each mode: normalised means (centroid), or means (score mean).
        predicted: predicted labels (R, N) int32 of each mode.
    """

    test: TestSet
    rows: Sequence[Row]
    classes: Mapping[Mode, Tensor]
    predicted: Mapping[Mode, Tensor]

    def right(self, mode: Mode) -> Tensor:
        """Which images each row gets right: (R, N) bool."""
        return self.predicted[mode] == self.test.labels


def answer(rows: Sequence[tuple[Row, Tensor]], *, test: TestSet) -> Answers:
    """Predictions of some rows, given with the mean text features (C, D) of the dataset's classes."""
    means = torch.stack([mean for _, mean in rows])  # (R, C, D)
    classes: dict[Mode, Tensor] = {"centroid": normalize(means), "score_mean": means}
    predicted = {mode: predict(test.image_features, of_mode) for mode, of_mode in classes.items()}
    return Answers(test, [row for row, _ in rows], classes, predicted)


def predict(image_features: Tensor, class_features: Tensor) -> Tensor:
    """The label with the highest score, the lowest among equal ones: (N, D), (P, C, D) -> (P, N) int32.

    Goes by blocks of the same sizes as `wsoup.core.scoring.decide`, with which it agrees on which images are right.
    """
    n_classifiers, n_classes, _ = class_features.shape
    n_images = len(image_features)
    # At least one at a time, however many classes there are.
    together = max(1, min(n_classifiers, AT_ONCE.texts // n_classes))
    images = max(1, AT_ONCE.scores // (together * n_classes))
    predicted = torch.empty(n_classifiers, n_images, dtype=torch.int32, device=image_features.device)
    for first in range(0, n_classifiers, together):
        texts = class_features[first : first + together]
        cosines = Linear(texts.flatten(0, 1), None, dtype=texts.dtype)
        for start in range(0, n_images, images):
            x = image_features[start : start + images]
            scores = cosines(x).view(len(x), len(texts), n_classes)
            labels = scores.argmax(dim=2)  # (n, p)
            predicted[first : first + together, start : start + images] = labels.T
    return predicted
