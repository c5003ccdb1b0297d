"""Labelled photos judged in turn, each by heads that have not seen it, where too few are held out to rank rows.

A dozen held-out photos cannot tell four rows apart. The photos of the head speak, too, once another head is made of
others: text rows have seen none of them anyway. Heads of as many shots are fitted to further draws, and each photo
counts by the share of heads without it that get it right. None of these heads is handed out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from wsoup.core.scoring import Scores
from wsoup.heads.choose import choose
from wsoup.heads.duplicates import originals
from wsoup.heads.fewshot import checked
from wsoup.heads.head import Head
from wsoup.heads.prototypes import class_means

FEW = 100
"""Held-out photos from which they judge alone: further draws then added nothing (docs/notes/heads.md)."""
DRAWS = 4
"""Further heads."""
HEAD = "head"
"""The row of the heads."""
CLASS_MEANS = "class means"
"""The row of the same photos' class means, without any text."""


def judged_in_turn(
    features: Tensor,
    labels: Tensor,
    *,
    in_train: Tensor,
    head: Head,
    texts: Mapping[str, Tensor],
    of_head: str,
    seed: int,
) -> dict[str, Tensor]:
    """How right texts and heads are on labelled photos that they have not seen.

    Args:
        features, labels: (N, D) and (N,) of all labelled photos, none of them twice.
        in_train: (N,) bool, the photos of `head`.
        head: the one that is handed out; the others have its kind, logit scale and classes.
        texts: class texts (C, D) of each row but the head, the simplest first.
        of_head: the row whose texts are the heads'.
        seed: of the draws.

    Returns:
        Row -> (M,) float64, the share of right answers on the M photos that some head has not seen. After the texts
        come `CLASS_MEANS`, of the same photos as the heads, and `HEAD`.
    """
    of_means, of_heads = _shares_right(features, labels, in_train=in_train, head=head, texts=texts[of_head], seed=seed)
    judged = ~of_heads.isnan()
    by_row = {}
    for row, class_texts in texts.items():
        (right,) = Scores(features[judged], class_texts[None]).right(labels[judged])
        by_row[row] = right.double()
    by_row[CLASS_MEANS] = of_means[judged]
    by_row[HEAD] = of_heads[judged]
    return by_row


def _shares_right(
    features: Tensor, labels: Tensor, *, in_train: Tensor, head: Head, texts: Tensor, seed: int
) -> tuple[Tensor, Tensor]:
    """Of each photo, (N,), the share of class means and of heads without it that get it right; NaN where all saw it."""
    seen = in_train
    weights = head.classifier
    n_right = torch.zeros(2, len(labels), dtype=torch.float64)
    n_judged = torch.zeros(len(labels), dtype=torch.float64)
    for draw in range(DRAWS + 1):
        if draw > 0:
            seen = _drawn(labels, in_train=in_train, draw=draw, seed=seed)
            weights = _fitted(features[seen], labels[seen], like=head, texts=texts)
        means = class_means(features[seen], labels[seen], n_classes=len(texts))
        for row, classifier in enumerate((means, weights.T)):
            (right,) = Scores(features, classifier[None]).right(labels)
            n_right[row] += right & ~seen
        n_judged += ~seen
    of_means, of_heads = n_right / n_judged
    return of_means, of_heads


def _fitted(features: Tensor, labels: Tensor, *, like: Head, texts: Tensor) -> Tensor:
    """Weights (D, C) of a head of the same kind on other photos."""
    shots, _ = checked(features, labels, texts=texts.T, logit_scale=like.logit_scale, names=list(like.class_names))
    return choose(shots, kind=like.kind).classifier.float()


def _drawn(labels: Tensor, *, in_train: Tensor, draw: int, seed: int) -> Tensor:
    """As many photos of each class as the head has, (N,) bool; in the first draw, those that it has not seen."""
    generator = np.random.default_rng([seed, draw])
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique().tolist():
        of_class = (labels == label).nonzero()[:, 0].numpy()
        n_shots = int(in_train[of_class].sum())
        if draw == 1:
            seen = in_train[of_class].numpy()
            order = np.concatenate([of_class[~seen], of_class[seen]])
        else:
            order = generator.permutation(of_class)
        chosen[order[:n_shots]] = True
    return chosen


def each_once(features: Tensor, labels: Tensor) -> Tensor:
    """Which photos may be judged, (N,) bool: without further copies, and without pictures that lie in two classes."""
    firsts = originals(features)
    kept = firsts == torch.arange(len(firsts))
    in_two_classes = firsts[labels[firsts] != labels]
    kept[in_two_classes] = False
    return kept
