"""`Scores`: what classifiers make of images. No files, no model.

Axes: N images, C classes, P classifiers or candidates, D feature size. A score is the product of an image's features,
L2-normalised float32, and a class's text (`wsoup.core.class_texts`): the cosine, if that is a centroid. The class with
the highest score is predicted; among equal scores the lowest label, as by ``argmax``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from wsoup.core import screening
from wsoup.core.calibration import Probabilities, probabilities
from wsoup.core.linear import Linear, without_tf32

NEAR_TIE = 1e-6
"""Two cosines closer than this may swap by rounding (float32: about 1e-7 over 512 products)."""
IMAGES = 1 << 16
"""Images whose features are copied to bf16 at a time."""


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


class Decisions(NamedTuple):
    """What each of P classifiers makes of N labelled images.

    Attributes:
        right: (P, N) bool, whether the image's own class is predicted.
        near: (P, N) bool, whether own and best other score are a near tie.
    """

    right: Tensor
    near: Tensor

    @classmethod
    def none_yet(cls, n_classifiers: int, labels: Tensor) -> "Decisions":
        """For `decide` to fill."""
        right, near = torch.zeros(2, n_classifiers, len(labels), dtype=torch.bool, device=labels.device)
        return cls(right, near)

    def decide(
        self, classifiers: slice, images: slice, scores: Tensor, *, labels: Tensor, near_tie: float = NEAR_TIE
    ) -> Tensor:
        """Decide some images by some classifiers.

        Args:
            classifiers, images: which, among all.
            scores: (n, p, C); the own class's scores are overwritten by -inf.
            labels: (n,) of these images.
            near_tie: two scores closer than this are one.

        Returns:
            The own class's scores: (n, p).
        """
        own, best, wins = own_against_others(scores, labels)
        self.right[classifiers, images] = wins.T
        self.near[classifiers, images] = near_ties(own, best, within=near_tie).T
        return own


class Scores:
    """Scores of N images for C classes by each of P classifiers. They are made in blocks and never kept.

    Args:
        image_features: (N, D) float32.
        classifiers: (P, C, D) float32, normalised (centroids) or not (the mean texts of the score mean).
        at_once: sizes of the blocks; by default those that suit the device.
    """

    def __init__(self, image_features: Tensor, classifiers: Tensor, *, at_once: AtOnce | None = None) -> None:
        self.image_features = image_features
        self.classifiers = classifiers
        self.at_once = at_once or suited_to(image_features.device)

    def predicted(self) -> Tensor:
        """The label with the highest score, the lowest among equal ones: (P, N) int32."""
        labels = torch.empty(self._shape, dtype=torch.int32, device=self.image_features.device)
        for group, block, scores in self.blocks():
            labels[group, block] = scores.argmax(dim=2).T.int()
        return labels

    def answers(self, labels: Tensor, *, logit_scale: float) -> tuple[Tensor, Probabilities]:
        """As `predicted`, and how probable it and the own class (labels (N,) int64) are."""
        predicted = torch.empty(self._shape, dtype=torch.int32, device=labels.device)
        confidence, log_p = torch.empty(2, *self._shape, device=labels.device)
        for group, block, scores in self.blocks():
            # Parts that stay in the processor's cache, which goes over them several times.
            for start in range(0, len(scores), self._images_in_cache):
                part = scores[start : start + self._images_in_cache]
                images = slice(block.start + start, block.start + start + len(part))
                best = part.argmax(dim=2)
                predicted[group, images] = best.T.int()
                made = probabilities(part, labels[images], best, logit_scale=logit_scale)
                confidence[group, images] = made.confidence
                log_p[group, images] = made.log_p
        return predicted, Probabilities(confidence, log_p)

    def right(self, labels: Tensor) -> Tensor:
        """Which images each classifier gets right, given their labels (N,) int64: (P, N) bool."""
        return self.against(labels).right

    def against(self, labels: Tensor, *, near_tie: float = NEAR_TIE) -> Decisions:
        """Which images each classifier gets right, and which of these answers are near ties.

        Where products in bf16 are fast, they settle most answers; the result is that of float32 everywhere.

        Args:
            labels: (N,) int64, each in [0, C).
            near_tie: two scores closer than this are one.
        """
        products = screening.that_pay(self.image_features, self.classifiers)
        if products is not None:
            return self.against_by_screening(labels, products=products, near_tie=near_tie)
        return self.against_in_float32(labels, near_tie=near_tie)

    def against_by_screening(
        self, labels: Tensor, *, products: screening.Products, near_tie: float = NEAR_TIE
    ) -> Decisions:
        """`against` in bf16; answers that bf16 leaves open (`wsoup.core.screening`) are decided in float32."""
        decisions = Decisions.none_yet(len(self.classifiers), labels)
        n_classes = self.classifiers.shape[1]
        together = screening.candidates_at_once(n_classes, products=products)
        for start in range(0, len(labels), IMAGES):
            block = slice(start, start + IMAGES)
            images = screening.rounded(self.image_features[block])
            for first in range(0, len(self.classifiers), together):
                group = slice(first, first + together)
                screen = screening.Screen(self.classifiers[group], products=products)
                right, is_open = screen.answers(images, labels[block], margin=2 * near_tie)
                decisions.right[group, block] = right
                self._decide_open(decisions, _places(is_open), labels, first=first, start=start, near_tie=near_tie)
        return decisions

    def _decide_open(
        self, decisions: Decisions, places: Sequence[Tensor], labels: Tensor, *, first: int, start: int, near_tie: float
    ) -> None:
        """Decide answers in float32: by classifier `first` those of images `start` + places[0], and so on."""
        for p, rows in enumerate(places, start=first):
            images = start + rows
            again = Scores(self.image_features[images], self.classifiers[p, None], at_once=self.at_once)
            decided = again.against_in_float32(labels[images], near_tie=near_tie)
            decisions.right[p, images] = decided.right[0]
            decisions.near[p, images] = decided.near[0]

    def against_in_float32(self, labels: Tensor, *, near_tie: float = NEAR_TIE) -> Decisions:
        """`against` from all scores in float32."""
        decisions = Decisions.none_yet(len(self.classifiers), labels)
        for group, block, scores in self.blocks():
            decisions.decide(group, block, scores, labels=labels[block], near_tie=near_tie)
        return decisions

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.classifiers), len(self.image_features)

    @property
    def _images_in_cache(self) -> int:
        """Images whose scores by a group of classifiers are worked on together."""
        n_classifiers, n_classes, _ = self.classifiers.shape
        together = min(n_classifiers, classifiers_at_once(n_classes, at_once=self.at_once))
        return max(1, self.at_once.softmax // max(1, together * n_classes))

    def blocks(self) -> Iterator[tuple[slice, slice, Tensor]]:
        """Groups of classifiers, blocks of images, and their scores (n, p, C).

        The texts of a group stay in the CPU's cache, and blocks of images bound the memory for scores.
        """
        n_classifiers, n_classes, _ = self.classifiers.shape
        if not (n_classifiers and len(self.image_features)):
            return
        together = min(n_classifiers, classifiers_at_once(n_classes, at_once=self.at_once))
        n_images = max(1, self.at_once.scores // (together * max(1, n_classes)))
        for first in range(0, n_classifiers, together):
            group = slice(first, first + together)
            texts = self.classifiers[group]
            product = Linear(texts.flatten(0, 1), None, dtype=texts.dtype)
            for start in range(0, len(self.image_features), n_images):
                block = slice(start, start + n_images)
                x = self.image_features[block]
                with without_tf32():
                    scores = product(x)
                yield group, block, scores.view(len(x), len(texts), n_classes)


def _places(is_open: Tensor) -> tuple[Tensor, ...]:
    """Which of n images are open for each of p classifiers, (p, n) bool: p tensors of indices.

    How many are open must be known before they are taken out, so this waits for a GPU: once for all p, since
    what is asked for after `nonzero` is there by then.
    """
    n_open = is_open.sum(dim=1)
    _, images = is_open.nonzero(as_tuple=True)
    return images.split(n_open.tolist())


def classifiers_at_once(n_classes: int, *, at_once: AtOnce) -> int:
    """Classifiers whose texts stay in the cache; at least one, however many classes there are."""
    return max(1, at_once.texts // max(1, n_classes))


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


def near_ties(own: Tensor, best: Tensor, *, within: float = NEAR_TIE) -> Tensor:
    """Which answers rounding could change, given the own and the best other score."""
    return (own - best).abs() < within
