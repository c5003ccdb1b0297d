"""AutoCLIP: texts weighted for each image by the image's own scores (Metzen et al. 2023, arXiv 2309.16414, section 3).

Of an image's scores s_kj for class k with text j, all texts weigh the same at first. One step of gradient ascent on
logsumexp_k(sum_j w_j s_kj), in the logits of w, favours texts that fit the image with the classes that it may be of.
Its length makes the entropy of w the share `BETA` of the largest, log M.

As in the authors' code (boschresearch/autoclip, auto_clip_simulated.py), scores are cosines without a logit scale, and
the step is found by bisection; here the gradient is first brought to the range 0 to 1, which only changes the unit of
the step. The gradient is the paper's. The released file has it along another axis; with that mended, answers are equal.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from wsoup.base.arguments import usual_torch
from wsoup.base.arrays import unit_rows
from wsoup.core.class_texts import ClassTexts
from wsoup.core.text_scores import images_at_once, text_scores

BETA = 0.85
"""Share of the largest entropy that weights have, the paper's for all models and datasets."""
LONGEST = 64.0
"""Step at which every text but the best has the weight 0 in float32, if the best is alone."""
HALVINGS = 24


def autoclip_weights(scores: Tensor) -> Tensor:
    """Weights of M texts for each of n images, summing to 1: (n, M, C) cosines -> (n, M).

    Texts with equal gradients weigh the same. If so many share the largest that the entropy cannot fall to `BETA`, they
    share all of the weight.
    """
    n_texts = scores.shape[1]
    likely = scores.mean(dim=1).softmax(dim=1)  # (n, C)
    # With equal weights the gradient is this minus its mean, over M: neither changes the direction of the step.
    gradient = torch.einsum("nc,nmc->nm", likely, scores)
    least = gradient.amin(dim=1, keepdim=True)
    spread = gradient.amax(dim=1, keepdim=True) - least
    in_unit_range = (gradient - least) / spread.clamp_min(torch.finfo(scores.dtype).tiny)
    return (_step(in_unit_range, entropy=BETA * math.log(n_texts)) * in_unit_range).softmax(dim=1)


def autoclip_scores(scores: Tensor) -> Tensor:
    """Scores of n images for C classes, each text weighted for the image: (n, M, C) -> (n, C)."""
    return torch.einsum("nm,nmc->nc", autoclip_weights(scores), scores)


def _step(gradient: Tensor, *, entropy: float) -> Tensor:
    """The step whose weights have this entropy, for each image: (n, M) in the range 0 to 1 -> (n, 1)."""
    short = gradient.new_zeros(len(gradient), 1)
    long = gradient.new_full((len(gradient), 1), LONGEST)
    for _ in range(HALVINGS):
        middle = (short + long) / 2
        log_weights = (middle * gradient).log_softmax(dim=1)
        is_too_short = -(log_weights.exp() * log_weights).sum(dim=1, keepdim=True) > entropy
        short = torch.where(is_too_short, middle, short)
        long = torch.where(is_too_short, long, middle)
    return long


@dataclass(frozen=True, eq=False)
class AutoClip:
    """A zero-shot classifier that weighs its texts for each image.

    Attributes:
        members: (M, C, D) float32, features of each of C classes with each of M texts, L2-normalised.
    """

    members: Tensor

    def __repr__(self) -> str:
        n_texts, n_classes, _ = self.members.shape
        return f"<AutoCLIP over {n_texts} texts, {n_classes} classes>"

    @property
    def classifier(self) -> Tensor:
        """The centroids (D, C): what classifies with equal weights."""
        return ClassTexts.of_members(self.members).centroids.T

    @usual_torch()
    def scores(self, features: object) -> Tensor:
        """Weighted means of cosines: (N, D), torch or NumPy -> (N, C) float32.

        Features that are not L2-normalised are, with a warning: the weights of texts depend on the size of cosines.

        Raises:
            DataError, MismatchError: no rows of finite numbers, or of another size than the texts.
        """
        checked_rows = unit_rows(features, name="features", size=self.members.shape[2])
        return self.scores_of(checked_rows.to(self.members.device))

    def scores_of(self, features: Tensor) -> Tensor:
        """`scores` of features that were checked before: a block of images at a time."""
        blocks = [
            autoclip_scores(text_scores(some, self.members)) for some in features.split(images_at_once(self.members))
        ]
        return torch.cat(blocks)

    def predict(self, features: object) -> Tensor:
        """The class with the highest score: (N, D) -> (N,) int64; features and errors as in `scores`."""
        return self.scores(features).argmax(dim=1)
