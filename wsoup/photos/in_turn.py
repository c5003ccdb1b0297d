"""Every labelled photo judged by heads that have not seen it, for folders with too few held-out photos to rank rows.

A dozen held-out photos cannot tell four rows apart. The photos of the head speak, too, once another head is made of
others: text rows have seen none of them anyway. A head of as many shots is fitted to further draws, and each photo
counts by the share of heads without it that get it right.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from wsoup.heads.choose import choose
from wsoup.heads.fewshot import checked
from wsoup.heads.head import Head
from wsoup.photos.classify import Classifier
from wsoup.statistics.advice import HEAD

FEW = 100
"""Held-out photos from which they judge alone: further draws then added nothing (docs/notes/heads.md)."""
DRAWS = 4
"""Further heads."""


def judged_in_turn(
    features: Tensor,
    labels: Tensor,
    *,
    in_train: Tensor,
    classifiers: dict[str, Classifier],
    texts: Tensor,
    head: Head,
    seed: int,
) -> dict[str, np.ndarray]:
    """How right each row is on the labelled photos that some head has not seen.

    Args:
        features, labels: (N, D) and (N,) of all labelled photos.
        in_train: (N,) bool, the photos of `head`.
        classifiers: of each row, `HEAD` among them.
        texts: class texts (C, D) of the heads.
        head: the one that is handed out; the others have its kind, logit scale and classes.
        seed: of the draws.

    Returns:
        Row -> (M,) shares between 0 and 1, M <= N.
    """
    right = {}
    for row, classifier in classifiers.items():
        answers = (features @ classifier.weights).argmax(dim=1)
        right[row] = (answers == labels).double()
    unseen = ~in_train
    n_right = right[HEAD] * unseen
    n_judged = unseen.double()
    for draw in range(1, DRAWS + 1):
        chosen = _drawn(labels, in_train=in_train, draw=draw, seed=seed)
        shots, _ = checked(
            features[chosen],
            labels[chosen],
            texts=texts.T,
            logit_scale=head.logit_scale,
            names=list(head.class_names),
        )
        weights = choose(shots, kind=head.kind).classifier.float()
        answers = (features @ weights).argmax(dim=1)
        n_right += (answers == labels) & ~chosen
        n_judged += ~chosen
    judged = n_judged > 0
    right[HEAD] = n_right / n_judged.clamp(min=1)
    return {row: shares[judged].numpy() for row, shares in right.items()}


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
