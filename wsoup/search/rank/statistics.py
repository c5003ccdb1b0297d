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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from wsoup.core.linear import Linear
from wsoup.core.scoring import AT_ONCE, NEAR_TIE, AtOnce, CandidateScores, ImageSet, correct, own_against_others
from wsoup.search.rank.source import Source

COLUMNS = ("n_correct", "alignment", "uniformity", "near_ties", "k2", "gain_se")
"""What is known of a scored candidate, as `CandidateStatistics` has it."""
SHARPNESS = 2.0
"""Logits are this many times the cosine in units of sigma."""


@dataclass(frozen=True)
class CandidateStatistics(CandidateScores):
    """`CandidateScores` with the statistics of this module, each (P,) float64."""

    log_likelihood: Tensor  # k2: nats, at most 0
    gain_se: Tensor  # images

    def column(self, name: str) -> Tensor:
        """A statistic by its column in files, where log_likelihood is called k2."""
        value: Tensor = getattr(self, "log_likelihood" if name == "k2" else name)
        return value


def statistics(
    images: ImageSet, text_features: Tensor, *, baseline_right: Tensor, at_once: AtOnce = AT_ONCE
) -> list[CandidateStatistics]:
    """Score candidates on every subset of the images, as `ImageSet.score` does, with k2 and the gain's standard error.

    Args:
        images: N images with K subsets (seeds).
        text_features: (P, C, D) float32, L2-normalised.
        baseline_right: (N,) bool, the images that the class name alone gets right (`wsoup.core.scoring.correct`).
        at_once: sizes of the blocks.

    Returns:
        K results. k2 is a mean of float32 logarithms summed in float64; without images it is NaN.
    """
    n_candidates, n_classes, _ = text_features.shape
    right, near = torch.empty(2, n_candidates, len(images.labels), dtype=torch.bool, device=images.labels.device)
    log_likelihood = torch.empty(len(images.subsets), n_candidates, dtype=torch.float64, device=images.labels.device)
    fitting = at_once.scores // max(1, len(images.labels) * n_classes)
    together = max(1, min(n_candidates, at_once.texts // max(1, n_classes), fitting))
    for start in range(0, n_candidates, together):
        part = slice(start, start + together)
        judged = _Block(images, text_features[part], at_once=at_once)
        right[part], near[part] = judged.decide()
        log_likelihood[:, part] = torch.stack([judged.likelihood(index) for index in images.subsets])
    results = []
    for k, (index, scores) in enumerate(
        zip(images.subsets, images.summed(text_features, right=right, near=near), strict=True)
    ):
        here, before = right[:, index], baseline_right[index]
        risen, fallen = (here & ~before).sum(1), (~here & before).sum(1)
        spread = (risen + fallen) - (risen - fallen).double() ** 2 / max(1, len(index))
        results.append(
            CandidateStatistics(**vars(scores), log_likelihood=log_likelihood[k], gain_se=spread.clamp_(min=0).sqrt())
        )
    return results


class _Block:
    """Some candidates (p, C, D) on all images, whose scores are kept where `AtOnce.kept` allows it.

    Scores are kept less the own class's one: no likelihood changes by that, and float32 holds them better.
    """

    def __init__(self, images: ImageSet, texts: Tensor, *, at_once: AtOnce) -> None:
        self.images, self.shape, self.at_once = images, texts.shape, at_once
        self.cosines = Linear(texts.flatten(0, 1), None, dtype=texts.dtype)
        self.deviations = texts.new_empty(len(images.labels), len(texts))  # (N, p) over classes
        each = max(1, texts.shape[0] * texts.shape[1])
        self.rows = max(1, (at_once.kept if len(texts) == 1 else at_once.scores) // each)
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
            right[:, where], near[:, where] = wins.T, ((own - best).abs() < NEAR_TIE).T
            self.deviations[where] = _relative(scores, y, own=own)
            self.kept = scores if len(scores) == len(labels) else None
        return right, near

    def likelihood(self, index: Tensor) -> Tensor:
        """k2 on the images `index`: (p,) float64."""
        sigma = self.deviations[index].double().mean(dim=0)
        scale = torch.where(sigma > 0, SHARPNESS / sigma, torch.zeros_like(sigma)).to(self.deviations.dtype)
        total = torch.zeros_like(sigma)
        for where, scores in self._again():
            inside = index  # asking which of them are here would make a GPU wait
            if len(scores) < len(self.images.labels):
                inside = index[(index >= where.start) & (index < where.stop)] - where.start
            for rows in inside.split(self._rows_at_once(scores)):
                logits = scores[rows].mul_(scale[:, None])  # (n, p, C)
                place = self.images.labels[where][rows][:, None, None].expand(-1, len(scale), 1)
                total += logits.log_softmax(dim=2).gather(2, place)[..., 0].double().sum(dim=0)
        return total / len(index)

    def _rows_at_once(self, scores: Tensor) -> int:
        """Images whose softmax is taken together."""
        most = self.at_once.softmax if scores.device.type == "cpu" else self.at_once.scores
        return max(1, most // max(1, scores[0].numel() if len(scores) else 1))

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


def shards(texts: Sequence[str], *, size: int) -> list[Sequence[str]]:
    """Texts cut for scoring, in order: at most `size` together, and the empty one alone, which shares no beginning.

    >>> shards(["", "a", "b", "c"], size=2)
    [[''], ['a', 'b'], ['c']]
    """
    cut: list[Sequence[str]] = []
    start = 0
    for i in range(1, len(texts) + 1):
        if i == len(texts) or i - start == size or not texts[i] or not texts[i - 1]:
            cut.append(texts[start:i])
            start = i
    return cut


def right_by_name(source: Source, *, images: ImageSet, period: bool) -> Tensor:
    """Which images the class name alone gets right: (N,) bool."""
    (name_alone,) = source.text_blocks([""], period=period)
    return correct(images.image_features, images.labels, name_alone[0])


def scores(
    source: Source, texts: Sequence[str], *, images: ImageSet, baseline_right: Tensor, period: bool
) -> dict[str, np.ndarray]:
    """`COLUMNS` of every text, each (K, P).

    Args:
        source: whose classes the texts are appended to.
        texts: P candidates.
        images: `source.images()`, made once for many calls.
        baseline_right: `right_by_name`, also.
        period: whether texts carry the final period.
    """
    features = source.text_blocks(texts, period=period)
    by_seed = list(zip(*(statistics(images, one, baseline_right=baseline_right) for one in features), strict=True))
    return {
        name: np.stack([np.concatenate([one.column(name).cpu().numpy() for one in of_seed]) for of_seed in by_seed])
        for name in COLUMNS
    }
