"""The kinds of heads: closed forms on few-shot images.

They are functions of a `FewShot`: of features F (n, D), labels, class texts T (D, C) and the logit scale s. A kind is a
frozen dataclass of its hyperparameters (a setting) with four functions:

* `settings` lists the settings to choose from, the one closest to the texts alone first,
* `fit` fits a setting to few-shot images: a classifier W (D, C), with logits f W,
* `left_out` yields for every setting the logits (n, C) of each image by a head fitted without its fold (rows of images
  that are in no fold are meaningless),
* `one_shot` gives the setting for one image of each class, where nothing can be left out.

Weights are in units of s, which makes them independent of the logit scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from wsoup.core.scoring import normalize
from wsoup.heads.fewshot import FewShot

ONE_SHOT = 0.65
"""Weight of one image of each class where the texts get none of them right."""
KNOWN = 0.4
"""How much less it is where the texts get all of them right (docs/notes/heads.md)."""


def one_shot_weight(shots: FewShot) -> float:
    """Weight of an image beside its class's text, in units of s, if no setting can be tried on left-out images.

    The texts have seen none of the images, so the share that they get right tells how much they know.
    """
    text_answers = shots.text_logits(shots.features).argmax(dim=1)
    is_right = text_answers == shots.labels
    return ONE_SHOT - KNOWN * float(is_right.double().mean())


@dataclass(frozen=True)
class Prototypes:
    """s f.T + a f.mu_c, with mu_c the normalised mean of the class's images (Snell et al., arXiv 1703.05175).

    The paper takes the nearest mean by squared distance, which for means of length 1 is the largest f.mu_c.
    """

    weight: float
    """a / s."""

    @staticmethod
    def settings() -> list[Prototypes]:
        """Weights from 0, the texts alone, up to one that almost ignores them."""
        return [Prototypes(weight) for weight in (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)]

    @staticmethod
    def one_shot(shots: FewShot) -> Prototypes:
        """The less the texts know, the more weight."""
        return Prototypes(one_shot_weight(shots))

    def fit(self, shots: FewShot) -> Tensor:
        """W (D, C)."""
        # A normalised sum is a normalised mean, so nothing is divided by the number of images.
        means = normalize(shots.one_hot.T @ shots.features)  # (C, D)
        weights = shots.texts + self.weight * means.T
        return shots.logit_scale * weights

    @staticmethod
    def left_out(shots: FewShot) -> Iterator[tuple[Prototypes, Tensor]]:
        """Subtract each image from the sum of its class."""
        cosines = torch.zeros_like(shots.one_hot)
        sums = shots.one_hot.T @ shots.features
        for fold in range(shots.n_folds):
            rows = shots.folds == fold
            left_out = shots.features[rows]
            means = normalize(sums - shots.one_hot[rows].T @ left_out)
            cosines[rows] = left_out @ means.T
        texts = shots.text_logits(shots.features)
        for setting in Prototypes.settings():
            yield setting, texts + shots.logit_scale * setting.weight * cosines


@dataclass(frozen=True)
class Ridge:
    """s f.T + f V, V the ridge regression of what the texts leave unexplained, s Y - s F.T.

    That is ProKeR (arXiv 2501.11175) with a linear kernel. Target logits are s for the true class and 0 for the others,
    as a text with cosine 1 would give. Each class counts the same, whatever its number of images: without these weights
    (image i of class c: n / (C n_c)), classes with few images are hardly ever predicted.

    With X and R the features and residuals times the square roots of the weights, V = (X'X + lambda I)^-1 X'R, or
    X'(XX' + lambda I)^-1 R, whichever system is smaller.
    """

    penalty: float
    """lambda."""

    @staticmethod
    def settings() -> list[Ridge]:
        """A large lambda stays close to the texts; smaller ones than these err on photos in another style."""
        return [Ridge(penalty) for penalty in (30.0, 10.0, 3.0, 1.0, 0.3)]

    @staticmethod
    def one_shot(shots: FewShot) -> Ridge:
        """The less the texts know, the smaller."""
        return Ridge(0.5 / one_shot_weight(shots))

    def fit(self, shots: FewShot) -> Tensor:
        """W (D, C)."""
        x, residual, _ = _weighted(shots)
        n, size = x.shape
        if n <= size:
            system = _add_diagonal(x @ x.T, self.penalty)
            extra = x.T @ torch.linalg.solve(system, residual)
        else:
            system = _add_diagonal(x.T @ x, self.penalty)
            extra = torch.linalg.solve(system, x.T @ residual)
        return shots.logit_scale * shots.texts + extra

    @staticmethod
    def left_out(shots: FewShot) -> Iterator[tuple[Ridge, Tensor]]:
        """For a left-out fold B, target minus prediction is (I - H_BB)^-1 (R - H R)_B; H = X (X'X + lambda I)^-1 X'.

        One factorisation serves all lambdas and folds, H = Q diag(g) Q': of XX' with g = v / (v + lambda), or of X'X
        with Q = X U and g = 1 / (v + lambda).
        """
        x, residual, roots = _weighted(shots)
        texts = shots.text_logits(shots.features)
        n, size = x.shape
        if n <= size:
            values, vectors = torch.linalg.eigh(x @ x.T)
            basis = vectors  # Q
            numerators = values
        else:
            values, vectors = torch.linalg.eigh(x.T @ x)
            basis = x @ vectors
            numerators = torch.ones_like(values)
        rotated = basis.T @ residual
        folds = [(shots.folds == fold).nonzero()[:, 0] for fold in range(shots.n_folds)]
        for setting in Ridge.settings():
            gains = numerators / (values + setting.penalty)
            logits = texts.clone()
            for rows in folds:
                of_fold = basis[rows]
                unexplained = residual[rows] - (of_fold * gains) @ rotated
                error = _without_fold(of_fold, gains, unexplained)
                # X and R were multiplied by the roots of the weights; logits are of the images themselves.
                logits[rows] += (residual[rows] - error) / roots[rows]
            yield setting, logits


def _without_fold(basis: Tensor, gains: Tensor, unexplained: Tensor) -> Tensor:
    """(I - Q diag(g) Q')^-1 E, with Q (b, D or n) the fold's rows of the basis, and E (b, C).

    With more rows than columns by Woodbury's identity, E + Q (diag(1 / g) - Q'Q)^-1 Q'E: the smaller system.
    """
    if len(basis) <= len(gains):
        missing = _add_diagonal(-(basis * gains) @ basis.T, 1.0)
        return torch.linalg.solve(missing, unexplained)
    # So many rows are more than the size of features, where the gains are 1 / (v + lambda), and none is 0.
    system = torch.diag(1 / gains) - basis.T @ basis
    return unexplained + basis @ torch.linalg.solve(system, basis.T @ unexplained)


def _weighted(shots: FewShot) -> tuple[Tensor, Tensor, Tensor]:
    """X (n, D) and R (n, C) of `Ridge`, and the square roots of the images' weights, (n, 1)."""
    sizes = torch.bincount(shots.labels, minlength=shots.n_classes)
    of_class = sizes[shots.labels].double()
    weights = len(shots.labels) / (shots.n_classes * of_class)
    roots = weights.sqrt()[:, None]
    residual = shots.logit_scale * shots.one_hot - shots.text_logits(shots.features)
    return roots * shots.features, roots * residual, roots


def _add_diagonal(matrix: Tensor, number: float) -> Tensor:
    """The matrix plus a number times the identity, in place."""
    matrix.diagonal().add_(number)
    return matrix


Kind = type[Prototypes] | type[Ridge]
PARTS: dict[str, tuple[Kind, ...]] = {"prototypes": (Prototypes,), "ridge": (Ridge,), "both": (Prototypes, Ridge)}
"""Name in params.yaml -> the kinds that a head is the mean of."""
