"""The few-shot images of all seeds, on which candidates are counted in one pass over the texts."""

import torch
from torch import Tensor

from wsoup.core.alignment import class_sums, mean_cosines
from wsoup.core.scoring import Decisions, Scores


class ImageSet:
    """Images to score candidates on, for several overlapping subsets (seeds) in one pass over the texts.

    Args:
        image_features: (N, D) float32, L2-normalised.
        labels: (N,) int64, each in [0, n_classes).
        n_classes: C.
        subsets: K index tensors into the N images, one per seed.
    """

    def __init__(self, image_features: Tensor, *, labels: Tensor, n_classes: int, subsets: list[Tensor]) -> None:
        self.image_features, self.labels, self.subsets = image_features, labels, subsets
        self._sums = [class_sums(image_features[index], labels[index], n_classes=n_classes) for index in subsets]

    def score(self, text_features: Tensor, *, decided: Decisions | None = None) -> dict[str, Tensor]:
        """Score candidates on every subset.

        Args:
            text_features: (P, C, D).
            decided: `Scores.against` of all images, if that is known.

        Returns:
            n_correct and near_ties, int64, and alignment and uniformity, float64: (K, P) each.
        """
        right, near = decided or Scores(self.image_features, text_features).against(self.labels)  # (P, N)
        texts = text_features.double()  # once for all subsets
        of_subsets: dict[str, list[Tensor]] = {"n_correct": [], "alignment": [], "uniformity": [], "near_ties": []}
        for index, sums in zip(self.subsets, self._sums, strict=True):
            alignment, uniformity = mean_cosines(texts, sums=sums, n_images=len(index))
            of_subsets["n_correct"].append(right[:, index].sum(dim=1))
            of_subsets["alignment"].append(alignment)
            of_subsets["uniformity"].append(uniformity)
            of_subsets["near_ties"].append(near[:, index].sum(dim=1))
        return {name: torch.stack(values) for name, values in of_subsets.items()}
