"""Scores in bf16 that settle most answers, and which answers they leave open, for float32 to decide.

A CPU that multiplies bf16 itself (AVX512_BF16, AMX) takes half of the time of float32 or less, a GPU with tensor cores
for bf16 a tenth. Let x be an image, t the text of a class and m the mean text of all classes. The score x m is the same
for every class, so x (t - m) ranks the classes like x t. With x' and t' the values of x and t - m in bf16, and the
norm |.|,

    |x (t - m) - x' t'|  <=  |x - x'| |t - m| + |x'| |t - m - t'|

by the inequality of Cauchy and Schwarz. Sums of D products in float32 add at most `SUMMING` D |x| |t| for x t, and
twice `SUMMING` D |x| |t - m| for x' t'. A CPU then rounds x' t' to bf16 once more. An answer is open if the own score
and the best other one are closer than these errors together and a margin.

A tensor core multiplies exactly and adds k >= 4 products to a sum at a time: it shifts these k + 1 numbers to the
exponent of the largest, cuts each off after 24 bits or more, and cuts the result off, too. Each of the k + 2 cuts loses
at most 2^-23 |x| |t - m|, so D products lose 1.5 D 2^-23 |x| |t - m| at most, three eighths of what is allowed above.
Source: Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores" (doi:10.7717/peerj-cs.330).
The scores come out in float32: cuBLAS may add the parts of a sum in the type of the result, which in bf16 has no such
bound.

So that the settled answers are those of float32, a score must not depend on where its image and text stand in the
product by more than these sums. Open answers are then those of all scores in float32 where a score does not depend on
that at all: oneDNN has this property on every CPU with AVX2 or more. cuBLAS chooses the order of a sum by the shape of
the product, so two blocks of float32 scores may differ in the last bits on a GPU, with a screen and without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from wsoup.base.processor import has_fast_bf16
from wsoup.core.linear import Linear, has_onednn

SUMMING = 2.0**-22
"""Error of one of D products in a sum, relative to |x| |t|: 2^-24 in float32. Products of bf16 are given twice this."""
ROUNDING = 2.0**-8
"""Largest relative error of a number in bf16."""
SPARE = 1.01
"""The bound itself is computed in float32."""
FEWEST_CLASSES = 256
"""With fewer, what it costs to convert images and texts is more than bf16 saves."""
IMAGES_AT_ONCE = 1 << 12
"""Images that are multiplied at a time, at least, before a product takes the texts of several candidates."""


@dataclass(frozen=True)
class Products:
    """How a kind of device multiplies bf16.

    Attributes:
        dtype: of the scores.
        scores_at_once: of a product.
        fewest_scores: with fewer scores (P x N x C), those in float32 are as fast.
    """

    dtype: torch.dtype
    scores_at_once: int
    fewest_scores: int

    def of(self, texts: Tensor) -> Linear | Float32Sums:
        """The product with texts (R, D) bfloat16, as a function: images (n, D) bfloat16 -> (n, R)."""
        if self.dtype == torch.bfloat16:
            return Linear(texts, None, dtype=torch.bfloat16)
        return Float32Sums(texts)

    @property
    def rounding(self) -> float:
        """Relative error of a score by its dtype. Float32's is among those of the sum."""
        return ROUNDING if self.dtype == torch.bfloat16 else 0.0


ON_CPU = Products(dtype=torch.bfloat16, scores_at_once=1 << 20, fewest_scores=0)
"""2 MiB of scores, which stay in the CPU's cache."""
ON_CUDA = Products(dtype=torch.float32, scores_at_once=1 << 27, fewest_scores=1 << 24)
"""512 MiB of scores. Below 2^24 a screen's launches and its wait take as long as the product in float32."""


class Float32Sums:
    """Products of bf16 numbers on CUDA, summed and given in float32."""

    def __init__(self, texts: Tensor) -> None:
        self._texts = texts.T

    def __call__(self, images: Tensor) -> Tensor:
        return torch.mm(images, self._texts, out_dtype=torch.float32)


def that_pay(image_features: Tensor, text_features: Tensor) -> Products | None:
    """The products that make screening candidates (P, C, D) faster than their scores in float32, if there are any."""
    n_candidates, n_classes, _ = text_features.shape
    dtypes = {image_features.dtype, text_features.dtype}
    if dtypes != {torch.float32} or n_classes < FEWEST_CLASSES:
        return None
    products = fast_on(image_features.device)
    if products is None or n_candidates * len(image_features) * n_classes < products.fewest_scores:
        return None
    return products


def fast_on(device: torch.device) -> Products | None:
    """How a device multiplies bf16, if that is faster there than float32."""
    if device.type == "cpu" and has_fast_bf16() and has_onednn(torch.float32) and has_onednn(torch.bfloat16):
        return ON_CPU
    if device.type == "cuda" and has_tensor_cores_for_bf16(device):
        return ON_CUDA
    return None


def has_tensor_cores_for_bf16(device: torch.device) -> bool:
    """Whether a GPU is of the generation of A100 or later, and NVIDIA's: others may sum in other ways."""
    return torch.version.cuda is not None and torch.cuda.get_device_capability(device) >= (8, 0)


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


def candidates_at_once(n_classes: int, *, products: Products) -> int:
    """Candidates in one screen; at least one."""
    return max(1, products.scores_at_once // (IMAGES_AT_ONCE * max(1, n_classes)))


class Screen:
    """The texts (p, C, D) float32 of some candidates, without each candidate's mean text and in bf16."""

    def __init__(self, texts: Tensor, *, products: Products) -> None:
        centred = texts - texts.mean(dim=1, keepdim=True)
        in_bf16 = centred.bfloat16()
        self.products, self.shape = products, texts.shape
        self.cosines = products.of(in_bf16.flatten(0, 1))
        # Of all classes together, since the best other class is not known before: (p,) each.
        self.longest = _longest(texts)
        self.longest_centred = _longest(centred)
        self.most_lost = _longest(centred - in_bf16)

    def answers(self, images: Images, labels: Tensor, *, margin: float) -> tuple[Tensor, Tensor]:
        """Which images are right, and which answers are open: (p, N) bool each.

        The rest are settled: in float32, too, own and best other score differ by more than `margin`, in this order.
        """
        n_candidates, n_classes, _ = self.shape
        own, best = torch.empty(2, n_candidates, len(labels), dtype=self.products.dtype, device=labels.device)
        at_once = max(1, self.products.scores_at_once // max(1, n_candidates * n_classes))
        for start in range(0, len(labels), at_once):
            block = slice(start, start + at_once)
            x = images.features[block]
            scores = self.cosines(x).view(len(x), n_candidates, n_classes)
            rows = torch.arange(len(x), device=labels.device)
            own[:, block] = scores[rows, :, labels[block]].T
            scores[rows, :, labels[block]] = -torch.inf
            best[:, block] = _largest(scores).T
        own_score = own.float()
        best_score = best.float()
        of_scores = self.products.rounding * (own_score.abs() + best_score.abs())
        bound = SPARE * (2 * self._errors(images) + of_scores + margin)
        # A comparison of two infinite numbers, or with NaN, is false, which leaves the answer open.
        settled = (own_score - best_score).abs() > bound
        return own_score > best_score, ~settled

    def _errors(self, images: Images) -> Tensor:
        """Largest errors of an image's scores before they are rounded: (p, N)."""
        longest, longest_centred, most_lost = (
            self.longest[:, None],
            self.longest_centred[:, None],
            self.most_lost[:, None],
        )
        of_images = images.lost * longest_centred
        of_texts = images.norms * (1 + ROUNDING) * most_lost
        of_sums = self.shape[2] * SUMMING * images.norms * (longest + 2 * longest_centred)
        return of_images + of_texts + of_sums


def _longest(vectors: Tensor) -> Tensor:
    """Of each candidate: (p, C, D) -> (p,)."""
    return torch.linalg.vector_norm(vectors, dim=2).amax(dim=1)


def _largest(scores: Tensor) -> Tensor:
    """The largest over classes (n, p, C), one of which is -inf; -inf if no other one is positive, in bf16: (n, p).

    As integers, the bits of positive numbers have the order of the numbers, the bits of negative ones are below them,
    and those of -inf are the highest of these. torch finds the maximum of integers in a fifth of the time on a CPU.
    """
    if scores.dtype == torch.bfloat16:
        return scores.view(torch.int16).amax(dim=2).view(torch.bfloat16)
    return scores.amax(dim=2)
