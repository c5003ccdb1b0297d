"""The mathematics on tensors: products, centroids, correct counts, alignment, uniformity. No files, no model.

Axes: N images, C classes, M soup members, P candidates, D feature size. All features are L2-normalised float32.
With x an image and t_kj the text of class k and member j (section 3 of the paper):

* centroid score    s_k = <x, mean_j t_kj / ||mean_j t_kj||>
* score mean        s_k = (1/M) sum_j <x, t_kj>

so the score mean is the centroid score times the norm of the mean. An image is correct if its own class has the highest
score; among equal scores the lowest label is predicted, as by ``argmax``.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.core.linear import Linear

Mode = Literal["centroid", "score_mean"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""How a soup's members become one classifier: the normalised mean of their texts, or the mean of their scores."""
NEAR_TIE = 1e-6
"""Two cosines closer than this may swap by rounding (float32: about 1e-7 over 512 products)."""
IMAGES = 1 << 16
"""Images whose features are copied to float64 at a time."""


@dataclass(frozen=True)
class AtOnce:
    """Block sizes: they bound memory whatever N, C and P are, and change no result.

    Attributes:
        scores: in memory at a time (64 MiB in float32).
        texts: candidates times classes in a block, which is read again and again and should stay in the CPU's cache.
        kept: scores of one candidate that `wsoup.search.rank.statistics` keeps until it knows their spread; if there
            are more, it computes them twice.
        softmax: scores in one softmax on a CPU, which should stay in its cache.
    """

    scores: int = 1 << 24
    texts: int = 1 << 13
    kept: int = 1 << 26
    softmax: int = 1 << 18


AT_ONCE = AtOnce()


def normalize(features: Tensor) -> Tensor:
    """L2-normalise the last axis. A zero vector stays zero."""
    return F.normalize(features, dim=-1)


class Decisions(NamedTuple):
    """What each of P candidates alone makes of N images.

    Attributes:
        right: (P, N) bool, whether the image's own class is predicted.
        near: (P, N) bool, whether own and best other score differ by less than `NEAR_TIE`.
    """

    right: Tensor
    near: Tensor


def decide(image_features: Tensor, labels: Tensor, text_features: Tensor, *, at_once: AtOnce = AT_ONCE) -> Decisions:
    """Which images each candidate alone gets right, and which of these answers are near ties.

    Goes by blocks of candidates, whose texts stay in the CPU's cache, and blocks of images, which bound the memory for
    scores. It compares the own class's score with the best of the others, a maximum instead of an arg-max, and decides
    the rare equal scores one by one.

    Args:
        image_features: (N, D) float32.
        labels: (N,) int64, each in [0, C).
        text_features: (P, C, D) float32, normalised (centroids) or not (the mean texts of the score mean).
        at_once: sizes of the blocks.
    """
    n_candidates, n_classes, _ = text_features.shape
    right, near = torch.empty(2, n_candidates, len(labels), dtype=torch.bool, device=labels.device)
    together = min(n_candidates, max(1, at_once.texts // max(1, n_classes)))
    rows = min(len(labels), max(1, at_once.scores // max(1, together * n_classes)))
    for texts, hits, close in zip(*(x.split(together or 1) for x in (text_features, right, near)), strict=True):
        cosines = Linear(texts.flatten(0, 1), None, dtype=texts.dtype)
        for start in range(0, len(labels), rows or 1):
            x, y = image_features[start : start + rows], labels[start : start + rows]
            own, best, wins = own_against_others(cosines(x).view(len(x), len(texts), n_classes), y)
            hits[:, start : start + len(x)] = wins.T
            close[:, start : start + len(x)] = ((own - best).abs() < NEAR_TIE).T
    return Decisions(right, near)


def own_against_others(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Own class's score, best other score, and whether the own class is predicted: (n, P, C), (n,) -> (n, P) each.

    Overwrites the own class's scores in `scores` by -inf.
    """
    place = labels[:, None, None].expand(-1, scores.shape[1], 1)
    own = scores.gather(2, place)[..., 0]
    best = scores.scatter_(2, place, -torch.inf).amax(dim=2)
    wins, equal = own > best, own == best
    if bool(equal.any()):
        i, p = equal.nonzero(as_tuple=True)
        wins[i, p] = labels[i] < (scores[i, p] == best[i, p, None]).int().argmax(dim=1)  # the lowest label is predicted
    return own, best, wins


def class_sums(image_features: Tensor, labels: Tensor, *, n_classes: int) -> Tensor:
    """Sum of the images of each class, float64, for `mean_cosines`: (N, D), (N,) -> (C, D)."""
    sums = torch.zeros(n_classes, image_features.shape[1], dtype=torch.float64, device=labels.device)
    for x, y in zip(image_features.split(IMAGES), labels.split(IMAGES), strict=True):
        sums.index_add_(0, y, x.double())
    return sums


def mean_cosines(class_features: Tensor, *, sums: Tensor, n_images: int) -> tuple[Tensor, Tensor]:
    """Alignment and uniformity of P classifiers (section 4 of the paper).

    Alignment is the mean cosine of an image and its own class's text, uniformity that of an image and the texts of the
    other classes; with one class it is NaN.

    Args:
        class_features: (P, C, D).
        sums: (C, D) float64, `class_sums` of the images.
        n_images: N.

    Returns:
        alignment, uniformity: (P,) float64 each.
    """
    texts, n_classes = class_features.double(), class_features.shape[1]
    own = torch.einsum("pcd,cd->p", texts, sums)
    every = torch.einsum("pcd,d->p", texts, sums.sum(dim=0))
    others = n_images * (n_classes - 1) if n_classes > 1 else float("nan")
    return own / n_images, (every - own) / others


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
            decided: what `decide` gives for all images, if that is known.

        Returns:
            n_correct and near_ties, int64, and alignment and uniformity, float64: (K, P) each.
        """
        right, near = decided or decide(self.image_features, self.labels, text_features)  # (P, N)
        texts = text_features.double()  # once for all subsets
        pairs = zip(self.subsets, self._sums, strict=True)
        cosines = [mean_cosines(texts, sums=sums, n_images=len(index)) for index, sums in pairs]
        alignment, uniformity = map(torch.stack, zip(*cosines, strict=True))
        n_correct, near_ties = (torch.stack([x[:, i].sum(dim=1) for i in self.subsets]) for x in (right, near))
        return {"n_correct": n_correct, "alignment": alignment, "uniformity": uniformity, "near_ties": near_ties}
