"""The texts of classes as features, and how the members of a soup become one classifier (section 3 of the paper).

With t_kj the feature of class k's text with member j, of M members:

* centroid    mean_j t_kj / ||mean_j t_kj||
* score mean  mean_j t_kj, whose product with an image is the mean of the members' scores

so the score mean is the centroid's score times the norm of the mean. Both need only the mean text of each class.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.core.modes import Mode


def normalize(features: Tensor) -> Tensor:
    """L2-normalise the last axis. A zero vector stays zero."""
    return F.normalize(features, dim=-1)


@dataclass(frozen=True)
class ClassTexts:
    """The mean text of each of C classes.

    Attributes:
        mean: (C, D) or, of P classifiers at once, (P, C, D); for centroids any multiple of the means, such as sums.
    """

    mean: Tensor

    @classmethod
    def of_members(cls, features: Tensor, *, weights: Tensor | None = None) -> "ClassTexts":
        """Of every class with every member.

        Args:
            features: (M, C, D), L2-normalised.
            weights: (M,) share of each member, summing to 1; by default all are equal.
        """
        if weights is None:
            weights = features.new_ones(len(features)) / len(features)
        # `features.mean(dim=0)` differs in the last bits.
        return cls(torch.einsum("m,mcd->cd", weights, features))

    @property
    def centroids(self) -> Tensor:
        """L2-normalised means: like `mean`."""
        return normalize(self.mean)

    def classifier(self, mode: Mode) -> Tensor:
        """What images are multiplied by: like `mean`."""
        if mode == "centroid":
            return self.centroids
        return self.mean
