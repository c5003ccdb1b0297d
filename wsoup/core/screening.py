"""Scores in bf16 that settle most answers, and which answers they leave open, for float32 to decide.

A CPU that multiplies bf16 itself (AVX512_BF16, AMX) takes half of the time of float32 or less. Let x be an image, t the
text of a class and m the mean text of all classes. The score x m is the same for every class, so x (t - m) ranks the
classes like x t. With x' and t' the values of x and t - m in bf16, and the norm |.|,

    |x (t - m) - x' t'|  <=  |x - x'| |t - m| + |x'| |t - m - t'|

by the inequality of Cauchy and Schwarz. Sums of D products in float32 add at most `SUMMING` D |x| |t| for both ways of
scoring, and x' t' is then rounded to bf16 once more. An answer is open if the own score and the best other one are
closer than these errors together and a margin.

So that the settled answers are those of float32, a score must not depend on where its image and text stand in the
product; oneDNN has this property on every CPU with AVX2 or more.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from wsoup.base.processor import has_fast_bf16
from wsoup.core.linear import Linear, has_onednn

SUMMING = 2.0**-22
"""Error of one of D products in a sum, relative to |x| |t|: 2^-24 in float32, and twice as much among bf16 products."""
ROUNDING = 2.0**-8
"""Largest relative error of a number in bf16."""
SPARE = 1.01
"""The bound itself is computed in float32."""
FEWEST_CLASSES = 256
"""With fewer, what it costs to convert images and texts is more than bf16 saves."""
SCORES = 1 << 20
"""Scores at a time: 2 MiB, which stay in the CPU's cache."""


def pays(image_features: Tensor, text_features: Tensor) -> bool:
    """Whether screening candidates (P, C, D) is faster here than their scores in float32."""
    dtypes = {image_features.dtype, text_features.dtype}
    if image_features.device.type != "cpu" or dtypes != {torch.float32} or text_features.shape[1] < FEWEST_CLASSES:
        return False
    return has_fast_bf16() and has_onednn(torch.float32) and has_onednn(torch.bfloat16)


class Images(NamedTuple):
    """N images in bf16.

    Attributes:
        features: (N, D) bfloat16.
        norms: (N,) of the images in float32.
        lost: (N,) norms of what the rounding took away.
    """

    features: Tensor
    norms: Tensor
    lost: Tensor


def rounded(image_features: Tensor) -> Images:
    """(N, D) float32 images in bf16."""
    in_bf16 = image_features.bfloat16()
    lost = torch.linalg.vector_norm(image_features - in_bf16, dim=1)
    return Images(in_bf16, torch.linalg.vector_norm(image_features, dim=1), lost)


class Screen:
    """One candidate's texts (C, D) float32, without their mean and in bf16."""

    def __init__(self, texts: Tensor) -> None:
        centred = texts - texts.mean(dim=0)
        in_bf16 = centred.bfloat16()
        self.cosines = Linear(in_bf16, None, dtype=torch.bfloat16)
        self.n_classes, self.size = texts.shape
        # Of all classes together, since the best other class is not known before.
        self.longest = _longest(texts)
        self.longest_centred = _longest(centred)
        self.most_lost = _longest(centred - in_bf16)

    def answers(self, images: Images, labels: Tensor, *, margin: float) -> tuple[Tensor, Tensor]:
        """Which images are right, and which answers are open: (N,) bool each.

        The rest are settled: in float32, too, own and best other score differ by more than `margin`, in this order.
        """
        own = torch.empty(len(labels), dtype=torch.bfloat16)
        best = torch.empty_like(own)
        at_once = max(1, SCORES // self.n_classes)
        for start in range(0, len(labels), at_once):
            block = slice(start, start + at_once)
            scores = self.cosines(images.features[block])  # (n, C)
            rows = torch.arange(len(scores))
            own[block] = scores[rows, labels[block]]
            scores[rows, labels[block]] = -torch.inf
            best[block] = _largest(scores)
        own_score = own.float()
        best_score = best.float()
        of_scores = ROUNDING * (own_score.abs() + best_score.abs())
        bound = SPARE * (2 * self._errors(images) + of_scores + margin)
        # A comparison of two infinite numbers, or with NaN, is false, which leaves the answer open.
        settled = (own_score - best_score).abs() > bound
        return own_score > best_score, ~settled

    def _errors(self, images: Images) -> Tensor:
        """Largest errors of an image's scores before they are rounded: (N,)."""
        of_images = images.lost * self.longest_centred
        of_texts = images.norms * (1 + ROUNDING) * self.most_lost
        of_sums = self.size * SUMMING * images.norms * (self.longest + 2 * self.longest_centred)
        return of_images + of_texts + of_sums


def _longest(vectors: Tensor) -> Tensor:
    return torch.linalg.vector_norm(vectors, dim=1).max()


def _largest(scores: Tensor) -> Tensor:
    """The largest of each row (n, C) of bf16 scores, one of which is -inf; -inf if no other is positive: (n,).

    As integers, the bits of positive numbers have the order of the numbers, the bits of negative ones are below them,
    and those of -inf are the highest of these. torch finds the maximum of integers in a fifth of the time.
    """
    return scores.view(torch.int16).amax(dim=1).view(torch.bfloat16)
