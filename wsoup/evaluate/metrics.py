"""What is measured of a row on a dataset, one function each.

To add a metric, write its function and its line in `METRICS`: every file of results then has its column.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from torch import Tensor

from wsoup.core.scoring import mean_cosines


@dataclass(frozen=True)
class Answers:
    """What one classifier says to N images.

    Attributes:
        image_features: (N, D).
        labels: (N,) int64.
        classes: (C, D), the classifier.
        right: (N,) bool, whether the label is predicted.
        sums: (C, D) float64, the images' sum by class.
    """

    image_features: Tensor
    labels: Tensor
    classes: Tensor
    right: Tensor
    sums: Tensor

    @property
    def scores(self) -> Tensor:
        """(N, C) float32."""
        return self.image_features @ self.classes.T

    @cached_property
    def cosines(self) -> tuple[Tensor, Tensor]:
        """Alignment and uniformity, () each."""
        return mean_cosines(self.classes[None], sums=self.sums, n_images=len(self.labels))


METRICS: dict[str, tuple[pa.DataType, Callable[[Answers], float]]] = {
    "n_correct": (pa.int64(), lambda answers: int(answers.right.sum())),
    "n_images": (pa.int64(), lambda answers: len(answers.labels)),
    "alignment": (pa.float64(), lambda answers: float(answers.cosines[0])),
    "uniformity": (pa.float64(), lambda answers: float(answers.cosines[1])),
}
"""Column -> its type, and its value for the answers of one classifier to one dataset."""
