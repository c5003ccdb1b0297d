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

from wsoup.core import screening
from wsoup.core.linear import Linear

Mode = Literal["centroid", "score_mean"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""How a soup's members become one classifier: the normalised mean of their texts, or the mean of their scores."""
NEAR_TIE = 1e-6
"""Two cosines closer than this may swap by rounding (float32: about 1e-7 over 512 products)."""
IMAGES = 1 << 16
"""Images whose features are copied to another dtype at a time."""


@dataclass(frozen=True)
class AtOnce:
    """Block sizes: they bound memory whatever N, C and P are, and change no result but the last bits of k2.

    Attributes:
        scores: of a group of candidates (64 MiB in float32).
        texts: candidates times classes in a group, which is read again and again and should stay in the CPU's cache.
        passes: scores that `wsoup.search.rank.statistics` computes before its passes over them: few, for the cache's
            sake, but not so few that the product is slow.
        kept: scores of one candidate that `wsoup.search.rank.statistics` keeps until it knows their spread; if there
            are more, it computes them twice.
        softmax: scores in one softmax, which should stay in the CPU's cache.
    """

    scores: int = 1 << 24
    texts: int = 1 << 13
    passes: int = 1 << 22
    kept: int = 1 << 26
    softmax: int = 1 << 18


AT_ONCE = AtOnce()
ON_CUDA = AtOnce(scores=1 << 27, texts=1 << 16, passes=1 << 27, kept=1 << 28, softmax=1 << 26)
"""On a GPU starting a small block takes longer than its work. These take up to 2 GiB."""


def suited_to(device: torch.device) -> AtOnce:
    """Block sizes for a kind of device; not for its free memory, on which no result may depend."""
    return ON_CUDA if device.type == "cuda" else AT_ONCE


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


def decide(
    image_features: Tensor, labels: Tensor, text_features: Tensor, *, at_once: AtOnce | None = None
) -> Decisions:
    """Which images each candidate alone gets right, and which of these answers are near ties.

    Where products in bf16 are fast, they settle most answers; the result is that of float32 everywhere.

    Args:
        image_features: (N, D) float32.
        labels: (N,) int64, each in [0, C).
        text_features: (P, C, D) float32, normalised (centroids) or not (the mean texts of the score mean).
        at_once: sizes of the blocks; by default those that suit the device.
    """
    at_once = at_once or suited_to(labels.device)
    if screening.pays(image_features, text_features):
        return decide_by_screening(image_features, labels, text_features, at_once=at_once)
    return decide_in_float32(image_features, labels, text_features, at_once=at_once)


def decide_by_screening(image_features: Tensor, labels: Tensor, text_features: Tensor, *, at_once: AtOnce) -> Decisions:
    """`decide` in bf16; answers that bf16 leaves open (`wsoup.core.screening`) are decided in float32."""
    right, near = torch.zeros(2, len(text_features), len(labels), dtype=torch.bool)
    for start in range(0, len(labels), IMAGES):
        block = slice(start, start + IMAGES)
        x, y = image_features[block], labels[block]
        images = screening.rounded(x)
        for candidate, texts in enumerate(text_features):
            right[candidate, block], is_open = screening.Screen(texts).answers(images, y, margin=2 * NEAR_TIE)
            rows = is_open.nonzero()[:, 0]
            again = decide_in_float32(x[rows], y[rows], texts[None], at_once=at_once)
            right[candidate, start + rows] = again.right[0]
            near[candidate, start + rows] = again.near[0]
    return Decisions(right, near)


def decide_in_float32(image_features: Tensor, labels: Tensor, text_features: Tensor, *, at_once: AtOnce) -> Decisions:
    """`decide` from all scores in float32.

    Goes by groups of candidates, whose texts stay in the CPU's cache, and blocks of images, which bound the memory for
    scores.
    """
    n_candidates, n_classes, _ = text_features.shape
    right, near = torch.empty(2, n_candidates, len(labels), dtype=torch.bool, device=labels.device)
    if not right.numel():
        return Decisions(right, near)
    together = min(n_candidates, max(1, at_once.texts // max(1, n_classes)))
    n_images = max(1, at_once.scores // (together * max(1, n_classes)))
    for first in range(0, n_candidates, together):
        group = slice(first, first + together)
        texts = text_features[group]
        cosines = Linear(texts.flatten(0, 1), None, dtype=texts.dtype)
        for start in range(0, len(labels), n_images):
            block = slice(start, start + n_images)
            x = image_features[block]
            scores = cosines(x).view(len(x), len(texts), n_classes)
            own, best, wins = own_against_others(scores, labels[block])
            right[group, block] = wins.T
            near[group, block] = near_ties(own, best).T
    return Decisions(right, near)


def own_against_others(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Own class's score, best other score, and whether the own class is predicted: (n, P, C), (n,) -> (n, P) each.

    Overwrites the own class's scores in `scores` by -inf.
    """
    place = labels[:, None, None].expand(-1, scores.shape[1], 1)
    own = scores.gather(2, place)[..., 0]
    scores.scatter_(2, place, -torch.inf)
    if scores.device.type == "cpu":
        best = scores.amax(dim=2)
        wins = own > best
        _decide_equal(wins, own == best, scores=scores, best=best, labels=labels)
    else:
        # Whether there are equal scores is known on the device alone, so each best score comes with its class.
        best, wins = _with_first_best(scores, labels, own=own)
    return own, best, wins


def _decide_equal(wins: Tensor, equal: Tensor, *, scores: Tensor, best: Tensor, labels: Tensor) -> None:
    """Among equal scores the lowest label is predicted: decide `wins` (n, P) where `equal` (n, P) says so.

    Equal scores are rare, and on a CPU a maximum takes an eighth of the time of an arg-max.
    """
    if not bool(equal.any()):
        return
    images, candidates = equal.nonzero(as_tuple=True)
    is_best = scores[images, candidates] == best[images, candidates, None]
    first_best = is_best.int().argmax(dim=1)
    wins[images, candidates] = labels[images] < first_best


def _with_first_best(scores: Tensor, labels: Tensor, *, own: Tensor) -> tuple[Tensor, Tensor]:
    """Best other score and whether the own class is predicted, (n, P) each, by the same rule without a condition."""
    best, first_best = scores.max(dim=2)
    wins = (own > best) | ((own == best) & (labels[:, None] < first_best))
    return best, wins


def near_ties(own: Tensor, best: Tensor) -> Tensor:
    """Which answers rounding could change, given the own and the best other score."""
    return (own - best).abs() < NEAR_TIE


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
    texts = class_features.double()
    n_classes = texts.shape[1]
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
        of_subsets: dict[str, list[Tensor]] = {"n_correct": [], "alignment": [], "uniformity": [], "near_ties": []}
        for index, sums in zip(self.subsets, self._sums, strict=True):
            alignment, uniformity = mean_cosines(texts, sums=sums, n_images=len(index))
            of_subsets["n_correct"].append(right[:, index].sum(dim=1))
            of_subsets["alignment"].append(alignment)
            of_subsets["uniformity"].append(uniformity)
            of_subsets["near_ties"].append(near[:, index].sum(dim=1))
        return {name: torch.stack(values) for name, values in of_subsets.items()}
