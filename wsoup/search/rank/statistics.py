"""What is said of a candidate beside its count, in the same pass over the texts: its likelihood, and the gain's noise.

With s_ic the cosine of image i and the text of class c, y_i the image's label, over the N images of one seed:

* sigma = mean over images of the standard deviation over classes of s_ic (of all C classes: divided by C)
* k2    = mean over images of log softmax_c(2 s_ic / sigma) [y_i]

k2 is a likelihood at a scale that follows the text's own spread, so it neither rewards nor punishes texts that pull all
classes together, as a fixed logit scale does. With b images that the candidate gets right and the class name alone
wrong, and c the other way round, the count's gain is b - c and its standard error sqrt(b + c - (b - c)^2 / N), in
images, as of N paired draws. Source: this project.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from wsoup.core import scoring
from wsoup.core.linear import Linear
from wsoup.core.scoring import CandidateScores, ImageSet, own_against_others

SHARPNESS = 2.0
"""Logits are this many times the cosine in units of sigma."""
MOST_SCORES = 4 * scoring.SCORES_PER_BLOCK
"""Scores of one candidate that are kept until its sigma is known; with more, they are computed a second time."""
SCORES_AT_ONCE = 1 << 18
"""Scores that go through the softmax together on a CPU: as many as stay near the processor."""


@dataclass(frozen=True)
class CandidateStatistics(CandidateScores):
    """`CandidateScores` with the statistics of this module, each (P,) float64."""

    k2: Tensor  # nats, at most 0
    gain_se: Tensor  # images


def statistics(images: ImageSet, text_features: Tensor, *, named: Tensor) -> list[CandidateStatistics]:
    """Score candidates on every subset of the images, as `ImageSet.score` does, with k2 and the gain's standard error.

    Args:
        images: N images with K subsets (seeds).
        text_features: (P, C, D) float32, L2-normalised.
        named: (N,) bool, the images that the class name alone gets right (`wsoup.core.scoring.correct`).

    Returns:
        K results. k2 is a mean of float32 logarithms summed in float64; without images it is NaN.
    """
    n_candidates, n_classes, _ = text_features.shape
    right, near = torch.empty(2, n_candidates, len(images.labels), dtype=torch.bool, device=images.labels.device)
    k2 = torch.empty(len(images.subsets), n_candidates, dtype=torch.float64, device=images.labels.device)
    fitting = scoring.SCORES_PER_BLOCK // max(1, len(images.labels) * n_classes)
    together = max(1, min(n_candidates, scoring.TEXTS_PER_BLOCK // max(1, n_classes), fitting))
    for start in range(0, n_candidates, together):
        part = slice(start, start + together)
        judged = _Block(images, text_features[part])
        right[part], near[part] = judged.decide()
        k2[:, part] = torch.stack([judged.likelihood(index) for index in images.subsets])
    found = []
    for k, (index, scores) in enumerate(
        zip(images.subsets, images.summed(text_features, right=right, near=near), strict=True)
    ):
        risen, fallen = ((right[:, index] & ~named[index]).sum(1), (~right[:, index] & named[index]).sum(1))
        spread = (risen + fallen) - (risen - fallen).double() ** 2 / max(1, len(index))
        found.append(CandidateStatistics(**vars(scores), k2=k2[k], gain_se=spread.clamp_(min=0).sqrt()))
    return found


class _Block:
    """Some candidates (p, C, D) on all images, whose scores are kept where `MOST_SCORES` allows it.

    Scores are kept less the own class's one: no likelihood changes by that, and float32 holds them better.
    """

    def __init__(self, images: ImageSet, texts: Tensor) -> None:
        self.images, self.shape = images, texts.shape
        self.cosines = Linear(texts.flatten(0, 1), None, dtype=texts.dtype)
        self.deviations = texts.new_empty(len(images.labels), len(texts))  # (N, p) over classes
        each = max(1, texts.shape[0] * texts.shape[1])
        self.rows = max(1, (MOST_SCORES if len(texts) == 1 else scoring.SCORES_PER_BLOCK) // each)
        self.kept: Tensor | None = None

    def _blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Scores (n, p, C) of some images."""
        for start in range(0, len(self.images.labels), self.rows):
            x = self.images.image_features[start : start + self.rows]
            yield slice(start, start + len(x)), self.cosines(x).view(len(x), *self.shape[:2])

    def decide(self) -> tuple[Tensor, Tensor]:
        """`wsoup.core.scoring.decide`, and the deviations: (p, N) bool each."""
        labels = self.images.labels
        right, near = torch.empty(2, self.shape[0], len(labels), dtype=torch.bool, device=labels.device)
        for where, scores in self._blocks():
            y = labels[where]
            own, best, wins = own_against_others(scores, y)
            right[:, where], near[:, where] = wins.T, ((own - best).abs() < scoring.NEAR_TIE).T
            self.deviations[where] = _relative(scores, y, own=own)
            self.kept = scores if len(scores) == len(labels) else None
        return right, near

    def likelihood(self, index: Tensor) -> Tensor:
        """k2 on the images `index`: (p,) float64."""
        sigma = self.deviations[index].double().mean(dim=0)
        scale = torch.where(sigma > 0, SHARPNESS / sigma, torch.zeros_like(sigma)).to(self.deviations.dtype)
        total = torch.zeros_like(sigma)
        for where, scores in self._again():
            inside = index[(index >= where.start) & (index < where.stop)] - where.start
            for rows in inside.split(_rows_at_once(scores)):
                logits = scores[rows].mul_(scale[:, None])  # (n, p, C)
                place = self.images.labels[where][rows][:, None, None].expand(-1, len(scale), 1)
                total += logits.log_softmax(dim=2).gather(2, place)[..., 0].double().sum(dim=0)
        return total / len(index)

    def _again(self) -> Iterator[tuple[slice, Tensor]]:
        """The scores less the own class's: kept, or computed again."""
        if self.kept is not None:
            yield slice(0, len(self.kept)), self.kept
            return
        for where, scores in self._blocks():
            place = self.images.labels[where][:, None, None].expand(-1, self.shape[0], 1)
            yield where, scores.sub_(scores.gather(2, place))


def _relative(scores: Tensor, labels: Tensor, *, own: Tensor) -> Tensor:
    """Take the own class's score off the others, in place; the standard deviation over classes: (n, p, C) -> (n, p)."""
    place = labels[:, None, None].expand(-1, scores.shape[1], 1)
    scores.scatter_(2, place, own[..., None]).sub_(own[..., None])
    n_classes = scores.shape[2]
    mean, square = scores.sum(dim=2) / n_classes, torch.linalg.vector_norm(scores, dim=2) ** 2 / n_classes
    return (square - mean**2).clamp_(min=0).sqrt()


def _rows_at_once(scores: Tensor) -> int:
    """Images whose softmax is taken together."""
    most = SCORES_AT_ONCE if scores.device.type == "cpu" else scoring.SCORES_PER_BLOCK // 4
    return max(1, most // max(1, scores[0].numel() if len(scores) else 1))
