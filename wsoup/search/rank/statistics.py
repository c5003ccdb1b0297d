"""Scores of candidates: besides counts, a likelihood and the standard error of the gain, in one pass over the texts.

With s_ic the cosine of image i and the text of class c, y_i the image's label, over the N images of one seed:

* sigma = mean over images of the standard deviation over classes of s_ic (of all C classes: divided by C)
* k2    = mean over images of log softmax_c(2 s_ic / sigma) [y_i]

k2 is a likelihood at a scale that follows the text's own spread. Unlike one at a fixed logit scale, it neither rewards
nor punishes texts that pull all classes together. If a candidate corrects b images that the class name alone gets
wrong, and breaks c that it gets right, its gain is b - c, with standard error sqrt(b + c - (b - c)^2 / N) images as for
N paired draws. Source: this project.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from wsoup.core.linear import Linear, without_tf32
from wsoup.core.scoring import AtOnce, Decisions, Scores, suited_to
from wsoup.disk.shards import Owner, Shard
from wsoup.disk.store import pack_arrays, unpack_arrays
from wsoup.runtime.peak import DevicePeak, highest
from wsoup.runtime.work import finish_shards
from wsoup.search.rank.image_set import ImageSet
from wsoup.search.rank.source import Source, identity_of_source

PEAK = "peak_device_mib"
"""In a shard, the highest device memory of its scoring in MiB, as an array of none or one."""
COLUMNS = {
    "n_correct": "correct images",
    "alignment": "mean cosine of an image and its own class's text",
    "uniformity": "mean cosine with the other classes' texts",
    "near_ties": "answers within 1e-6 of another",
    "k2": "mean log likelihood of the labels, in nats; empty without `score.likelihood`",
    "gain_se": "standard error of the gain over the class name, in images",
}
"""Columns of a scored candidate, and what they mean: artifacts/scores, `wsoup.score_texts` and docs/pipeline.md have
them from here. `statistics` computes each."""
SHARPNESS = 2.0
"""Logits are cosines times this, in units of sigma."""


def statistics(
    images: ImageSet,
    text_features: Tensor,
    *,
    baseline_right: Tensor,
    likelihood: bool = True,
    at_once: AtOnce | None = None,
) -> dict[str, Tensor]:
    """Score candidates on every subset of the images, like `ImageSet.score`, with k2 and the gain's standard error.

    Args:
        images: N images with K subsets (seeds).
        text_features: (P, C, D) float32, L2-normalised.
        baseline_right: (N,) bool, the images that the class name alone gets right (`right_by_name`).
        likelihood: whether to compute k2. It needs all scores in float32; counts alone are up to three times as fast.
        at_once: sizes of the blocks; by default those that suit the device.

    Returns:
        `COLUMNS`, (K, P) each. k2 is a mean of float32 logarithms, summed in float64; NaN without images, and if
        it is not computed.
    """
    at_once = at_once or suited_to(images.labels.device)
    if likelihood:
        decided, log_likelihood = _with_likelihood(images, text_features, at_once=at_once)
    else:
        decided = Scores(images.image_features, text_features, at_once=at_once).against(images.labels)
        shape = (len(images.subsets), len(text_features))
        log_likelihood = torch.full(shape, torch.nan, dtype=torch.float64, device=images.labels.device)
    spreads = []
    for index in images.subsets:
        after, before = decided.right[:, index], baseline_right[index]
        corrected, broken = (after & ~before).sum(1), (~after & before).sum(1)
        variance = (corrected + broken) - (corrected - broken).double() ** 2 / max(1, len(index))
        spreads.append(variance.clamp_(min=0).sqrt())
    columns = images.score(text_features, decided=decided)
    return columns | {"k2": log_likelihood, "gain_se": torch.stack(spreads)}


def _with_likelihood(images: ImageSet, text_features: Tensor, *, at_once: AtOnce) -> tuple[Decisions, Tensor]:
    """`Scores.against` and k2, (K, P) float64, from the same scores in float32."""
    n_candidates, n_classes, _ = text_features.shape
    right, near = torch.zeros(2, n_candidates, len(images.labels), dtype=torch.bool, device=images.labels.device)
    log_likelihood = torch.empty(len(images.subsets), n_candidates, dtype=torch.float64, device=images.labels.device)
    fitting = at_once.scores // max(1, len(images.labels) * n_classes)
    together = max(1, min(n_candidates, at_once.texts // max(1, n_classes), fitting))
    for rows, subsets in _passes(images, most=at_once.kept // max(1, n_classes)):
        x, y = images.image_features[rows], images.labels[rows]
        for start in range(0, n_candidates, together):
            part = slice(start, start + together)
            decisions, relative = _Block(x, y, text_features[part], at_once=at_once).decide()
            right[part, rows], near[part, rows] = decisions
            for k, inside in subsets.items():
                log_likelihood[k, part] = relative.likelihood(inside)
    return Decisions(right, near), log_likelihood


def _passes(images: ImageSet, *, most: int) -> list[tuple[slice | Tensor, dict[int, Tensor]]]:
    """Which images to score together, and where the images of each subset (seed) are among them.

    All images together if the scores of no more than `most` images are kept; else each subset alone, because its spread
    must be known before its likelihood, and all scores would be computed again for every subset.
    """
    if len(images.labels) <= most:
        return [(slice(None), dict(enumerate(images.subsets)))]
    return [(index, {k: torch.arange(len(index), device=index.device)}) for k, index in enumerate(images.subsets)]


class _Block:
    """Some candidates (p, C, D) on n images (n, D), whose scores are computed a few images at a time."""

    def __init__(self, image_features: Tensor, labels: Tensor, texts: Tensor, *, at_once: AtOnce) -> None:
        self.image_features = image_features
        self.labels = labels
        self.texts = texts
        self.at_once = at_once
        self.n_candidates, self.n_classes, _ = texts.shape
        self.cosines = Linear(texts.flatten(0, 1), None, dtype=texts.dtype)
        self.of_image = max(1, self.n_candidates * self.n_classes)  # scores

    def scores(self, *, n_images: int) -> Iterator[tuple[slice, Tensor]]:
        """Scores (n, p, C), of `n_images` images at a time."""
        for start in range(0, len(self.labels), n_images):
            x = self.image_features[start : start + n_images]
            with without_tf32():
                scores = self.cosines(x)
            yield slice(start, start + len(x)), scores.view(len(x), self.n_candidates, self.n_classes)

    def decide(self) -> tuple[Decisions, _RelativeScores]:
        """`Scores.against`, and the likelihoods that follow from the same scores."""
        decisions = Decisions.none_yet(self.n_candidates, self.labels)
        deviations = self.texts.new_empty(len(self.labels), self.n_candidates)
        kept: Tensor | None = None
        if len(self.labels) * self.of_image <= self.at_once.kept:
            kept = self.texts.new_empty(len(self.labels), self.n_candidates, self.n_classes)
        n_scores = min(self.at_once.passes, self.at_once.kept)
        for where, scores in self.scores(n_images=max(1, n_scores // self.of_image)):
            labels = self.labels[where]
            own = decisions.decide(slice(None), where, scores, labels=labels)
            # Kept scores have to move out of the product's memory anyway, so the difference moves them.
            relative = scores if kept is None else kept[where]
            _relative(scores, labels, own=own, out=relative)
            deviations[where] = _deviations(relative)
        return decisions, _RelativeScores(self, deviations, kept)


@dataclass(frozen=True)
class _RelativeScores:
    """Scores of a block minus the label's score, which changes no likelihood and is more precise in float32.

    Attributes:
        block: candidates and images.
        deviations: (n, p) of each image's scores over classes.
        kept: all scores (n, p, C), or None if `AtOnce.kept` does not allow that: each call then computes them again.
    """

    block: _Block
    deviations: Tensor
    kept: Tensor | None

    def likelihood(self, index: Tensor) -> Tensor:
        """k2 on the images `index`: (p,) float64."""
        sigma = self.deviations[index].double().mean(dim=0)
        scale = torch.where(sigma > 0, SHARPNESS / sigma, torch.zeros_like(sigma)).to(self.deviations.dtype)
        total = torch.zeros_like(sigma)
        at_once = max(1, self.block.at_once.softmax // self.block.of_image)
        for where, scores in self._scores():
            inside = index  # filtering would make a GPU wait
            if len(scores) < len(self.block.labels):
                inside = index[(index >= where.start) & (index < where.stop)] - where.start
            labels = self.block.labels[where]
            for rows in inside.split(at_once):
                logits = scores.index_select(0, rows).mul_(scale[:, None])  # (n, p, C)
                label = labels[rows][:, None, None].expand(-1, len(scale), 1)
                of_label = logits.log_softmax(dim=2).gather(2, label)[..., 0]
                total += of_label.double().sum(dim=0)
        return total / len(index)

    def _scores(self) -> Iterator[tuple[slice, Tensor]]:
        """The relative scores: kept, or computed again."""
        if self.kept is not None:
            yield slice(0, len(self.kept)), self.kept
            return
        n_images = max(1, self.block.at_once.kept // self.block.of_image)
        for where, scores in self.block.scores(n_images=n_images):
            labels = self.block.labels[where][:, None, None].expand(-1, self.block.n_candidates, 1)
            yield where, scores.sub_(scores.gather(2, labels))


def _relative(scores: Tensor, labels: Tensor, *, own: Tensor, out: Tensor) -> None:
    """Scores (n, p, C) minus the label's, `own` (n, p), whose place in `scores` may hold anything."""
    torch.sub(scores, own[..., None], out=out)
    place = labels[:, None, None].expand(-1, scores.shape[1], 1)
    out.scatter_(2, place, 0.0)


def _deviations(scores: Tensor) -> Tensor:
    """Standard deviation over classes: (n, p, C) -> (n, p)."""
    n_classes = scores.shape[2]
    mean = scores.sum(dim=2) / n_classes
    square = torch.linalg.vector_norm(scores, dim=2) ** 2 / n_classes
    return (square - mean**2).clamp_(min=0).sqrt()


def shards(texts: Sequence[str], *, size: int) -> list[Sequence[str]]:
    """Split distinct texts for scoring, in order: at most `size` together, and "" alone, since it shares no prefix.

    >>> shards(["", "a", "b", "c"], size=2)
    [[''], ['a', 'b'], ['c']]
    """
    parts: list[Sequence[str]] = []
    for _, group in groupby(texts, key=bool):
        together = list(group)
        for start in range(0, len(together), size):
            parts.append(together[start : start + size])
    return parts


def right_by_name(source: Source, *, images: ImageSet, period: bool) -> Tensor:
    """Which images the bare class name gets right: (N,) bool."""
    (name_alone,) = source.text_blocks([""], period=period)
    return Scores(images.image_features, name_alone).right(images.labels)[0]


def scores(
    source: Source,
    texts: Sequence[str],
    *,
    images: ImageSet,
    baseline_right: Tensor,
    period: bool,
    likelihood: bool = True,
) -> dict[str, np.ndarray]:
    """`COLUMNS` of every text, (K, P) each.

    Args:
        source: its classes are combined with the texts.
        texts: P candidates.
        images: `source.images()`, computed once for many calls.
        baseline_right: `right_by_name`, likewise.
        period: whether texts have the final period.
        likelihood: whether to compute k2, which is NaN otherwise.
    """
    blocks = source.text_blocks(texts, period=period)
    scored = []
    for block in blocks:
        scored.append(statistics(images, block, baseline_right=baseline_right, likelihood=likelihood))
    return {name: torch.cat([each[name] for each in scored], dim=1).cpu().numpy() for name in COLUMNS}


class Scored(NamedTuple):
    """Scores of all candidates, (K, P) for each of `COLUMNS`, and the highest device memory in MiB, None on a CPU."""

    columns: dict[str, np.ndarray]
    peak_device_mib: int | None


def scores_in_shards(
    source: Source, texts: Sequence[str], *, period: bool, likelihood: bool, size: int, owner: Owner, label: str
) -> Scored:
    """`scores`, resumably, in `shards` of `size` texts.

    Args:
        source, texts, period, likelihood: as for `scores`.
        size: maximum number of texts in one shard.
        owner: owner of the resume state.
        label: label of the progress bar.
    """
    scoring = _Scoring(source, period, likelihood)
    about = identity_of_source(source)
    work = []
    for part in shards(texts, size=size):
        work.append(Shard(owner, [about, period, likelihood, list(part)], partial(scoring.of, part)))
    scored = [unpack_arrays(payload, origin=label) for payload in finish_shards(work, label=label, unit="shard")]
    columns = {name: np.concatenate([part[name] for part in scored], axis=1) for name in COLUMNS}
    peaks = np.concatenate([part[PEAK] for part in scored])
    return Scored(columns, highest(peaks.tolist()))


@dataclass(frozen=True)
class _Scoring:
    """What all shards share, computed when the first of them is: a run whose shards are finished encodes nothing."""

    source: Source
    period: bool
    likelihood: bool

    @cached_property
    def images(self) -> ImageSet:
        return self.source.images()

    @cached_property
    def baseline_right(self) -> Tensor:
        return right_by_name(self.source, images=self.images, period=self.period)

    def of(self, texts: Sequence[str]) -> bytes:
        """`scores` of some texts."""
        peak = DevicePeak(self.source.encoder.device)
        columns = scores(
            self.source,
            texts,
            images=self.images,
            baseline_right=self.baseline_right,
            period=self.period,
            likelihood=self.likelihood,
        )
        mib = peak.mib()
        measured = [] if mib is None else [mib]
        return pack_arrays(columns | {PEAK: np.array(measured, dtype=np.int64)})
