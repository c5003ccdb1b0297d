"""ZPE: texts weighted for a dataset by its images without labels (Allingham et al. 2023, arXiv 2302.06235, section 3).

A text is good if images are sure of a class with it: its score is the mean over images of the highest logit. Two biases
are taken off the logits first, half each (algorithm 2): the mean logit of a bank of other images, because classes and
words that are frequent in pretraining score high everywhere; and the mean logit of the dataset's own images, because a
text may name what all of them show and no class differs in. Weights are the softmax of scores, or that of the scores
that stand out.

As in the authors' code (google/uncertainty-baselines, experimental/multimodal), logits are cosines times the model's
logit scale, and weights average logits, not normalised texts. Their bank is 20,000 images of LAION-400M, and their
threshold of selection depends on the dataset (`STANDS_OUT`).
"""

import torch
from torch import Tensor

STANDS_OUT = 0.5
"""A text is selected if it is more median absolute deviations than this above the median (the paper: 0.5 for ImageNet
and its shifts, 2 for other datasets, where these are few texts; one value here, since a target tells nothing)."""


def zpe_bias(members: Tensor, *, mean_image: Tensor, mean_of_bank: Tensor) -> Tensor:
    """What is taken off each text's score: (M, C, D), and mean image features (D,) twice -> (M, C)."""
    return members @ ((mean_image + mean_of_bank) / 2)


def sureness(scores: Tensor, *, bias: Tensor) -> Tensor:
    """Highest score of each image with each text, free of bias: (n, M, C), (M, C) -> (n, M)."""
    return (scores - bias).amax(dim=2)


def zpe_weights(scores: Tensor) -> Tensor:
    """Weights of M texts, summing to 1, by their scores in logits: (M,) -> (M,)."""
    return scores.softmax(dim=0)


def zpe_selection(scores: Tensor) -> Tensor:
    """Weights of the texts whose scores stand out, 0 for the others: (M,) -> (M,).

    If none stands out, as among equal scores, all are kept.
    """
    above = scores - scores.quantile(0.5)
    deviation = above.abs().quantile(0.5)
    stands_out = above > STANDS_OUT * deviation
    if not bool(stands_out.any()):
        return zpe_weights(scores)
    return scores.masked_fill(~stands_out, -torch.inf).softmax(dim=0)
