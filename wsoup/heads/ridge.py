"""Ridge regression of what the texts leave unexplained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.core.alignment import class_sums
from wsoup.heads.differences import Differences
from wsoup.heads.fewshot import BLOCK, FewShot


@dataclass(frozen=True)
class Ridge:
    """s f.T + f V, V the ridge regression of what the texts leave unexplained, a Y - s F.T.

    That is ProKeR (arXiv 2501.11175) with a linear kernel, but features f are measured by what tells images apart, and
    target logits are a for the true class and 0 for the others (`wsoup.heads.differences`). Each class counts the same,
    whatever its number of images: without these weights (image i of class c: n / (C n_c)), classes with few images are
    hardly ever predicted.

    With X and R the features and residuals times the square roots of the weights, V = (X'X + lambda I)^-1 X'R, or
    X'(XX' + lambda I)^-1 R, whichever system is smaller.
    """

    penalty: float
    """lambda."""

    @property
    def photos_per_text(self) -> float:
        """The penalty holds a class to its text as so many photos hold it to theirs."""
        return self.penalty

    @classmethod
    def of(cls, photos_per_text: float) -> Ridge:
        """The setting for texts that count as so many photos."""
        return cls(photos_per_text)

    @classmethod
    def settings(cls) -> list[Ridge]:
        """A large lambda stays close to the texts; smaller ones than these err on photos in another style."""
        return [Ridge(penalty) for penalty in (30.0, 17.0, 10.0, 5.5, 3.0, 1.7, 1.0, 0.55, 0.3)]

    @classmethod
    def left_out(cls, shots: FewShot) -> RidgeLeftOut:
        """Ridge regressions on the images outside each fold, with the weights that these have among all."""
        return RidgeLeftOut(Differences.of(shots).measured(shots))

    def fit(self, shots: FewShot) -> Tensor:
        """W (D, C)."""
        differences = Differences.of(shots)
        return differences.classifier(self._of_measured(differences.measured(shots)))

    def _of_measured(self, shots: FewShot) -> Tensor:
        """W of measured images."""
        n, size = shots.features.shape
        everything = torch.arange(n)
        if n > size:
            return _Moments.of(shots, everything).head(shots, penalty=self.penalty)
        x = shots.weights.sqrt() * shots.features
        system = _add_diagonal(x @ x.T, self.penalty)
        extra = x.T @ torch.linalg.solve(system, _residual(shots, everything))
        return shots.logit_scale * shots.texts + extra


@dataclass(frozen=True)
class RidgeLeftOut:
    """`Ridge` without each fold, whichever is less work: a small fold is corrected for, a large one fitted without.

    Attributes:
        shots: measured images; their logits are those of the images themselves.
    """

    shots: FewShot

    def logits(self, setting: Ridge) -> Iterator[tuple[Tensor, Tensor]]:
        """See `wsoup.heads.kinds.LeftOut`."""
        size = self.shots.features.shape[1]
        for fold in self.shots.rows_of_folds:
            if len(fold) <= size:
                yield fold, self._corrected(setting, fold=fold)
            else:
                yield from self._refitted(setting, fold=fold)

    def _corrected(self, setting: Ridge, *, fold: Tensor) -> Tensor:
        """Target minus prediction is (I - H_BB)^-1 (R - H R)_B for the fold B, with H = X (X'X + lambda I)^-1 X'."""
        shots = self.shots
        texts = shots.text_logits(shots.features[fold])
        residual = _residual(shots, fold)
        roots = shots.weights[fold].sqrt()
        spectrum = self._spectrum
        basis = spectrum.basis[fold]
        gained = basis * spectrum.gains(setting.penalty)
        system = _add_diagonal(-gained @ basis.T, 1.0)
        error = torch.linalg.solve(system, residual - gained @ spectrum.residual)
        # X and R were multiplied by the roots of the weights; logits are of the images themselves.
        return texts + (residual - error) / roots

    def _refitted(self, setting: Ridge, *, fold: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Subtract the fold's images from the moments."""
        of_fold = _Moments.of(self.shots, fold)
        of_others = _Moments(self._moments.gram - of_fold.gram, self._moments.sums - of_fold.sums)
        weights = of_others.head(self.shots, penalty=setting.penalty)
        for rows in fold.split(BLOCK):
            yield rows, self.shots.features[rows] @ weights

    @cached_property
    def _moments(self) -> _Moments:
        return _Moments.of(self.shots, torch.arange(len(self.shots.labels)))

    @cached_property
    def _spectrum(self) -> _Spectrum:
        """Of XX', or of X'X with Q = X U, whichever is smaller."""
        shots = self.shots
        n, size = shots.features.shape
        x = shots.weights.sqrt() * shots.features
        if n <= size:
            values, vectors = torch.linalg.eigh(x @ x.T)
            residual = vectors.T @ _residual(shots, torch.arange(n))
            return _Spectrum(values, numerators=values, basis=vectors, residual=residual)
        values, vectors = torch.linalg.eigh(self._moments.gram)
        # X'R of all images, without R.
        products = shots.logit_scale * (self._moments.sums - self._moments.gram @ shots.texts)
        return _Spectrum(values, numerators=torch.ones_like(values), basis=x @ vectors, residual=vectors.T @ products)


class _Spectrum(NamedTuple):
    """One factorisation that serves all lambdas and folds: H = Q diag(g) Q' with g = numerators / (values + lambda).

    Attributes:
        values, numerators: (r,) with r the smaller of n and D.
        basis: Q (n, r).
        residual: Q'R (r, C).
    """

    values: Tensor
    numerators: Tensor
    basis: Tensor
    residual: Tensor

    def gains(self, penalty: float) -> Tensor:
        """g (r,)."""
        return self.numerators / (self.values + penalty)


class _Moments(NamedTuple):
    """What a regression needs to know of many images: X'X (D, D), and weighted sums of each class's images (D, C)."""

    gram: Tensor
    sums: Tensor

    @classmethod
    def of(cls, shots: FewShot, rows: Tensor) -> _Moments:
        """Of some images; their weights are those among all images."""
        features = shots.features[rows]
        weighted = shots.weights[rows] * features
        sums = class_sums(weighted, shots.labels[rows], n_classes=shots.n_classes)
        return _Moments(weighted.T @ features, sums.T)

    def head(self, shots: FewShot, *, penalty: float) -> Tensor:
        """W (D, C), which is s T + V, without a residual: s (X'X + lambda I)^-1 (sums + lambda T)."""
        system = _add_diagonal(self.gram.clone(), penalty)
        return shots.logit_scale * torch.linalg.solve(system, self.sums + penalty * shots.texts)


def _residual(shots: FewShot, rows: Tensor) -> Tensor:
    """R (b, C) of b images, which should be few."""
    targets = F.one_hot(shots.labels[rows], shots.n_classes).double()
    unexplained = shots.logit_scale * targets - shots.text_logits(shots.features[rows])
    return shots.weights[rows].sqrt() * unexplained


def _add_diagonal(matrix: Tensor, number: float) -> Tensor:
    """The matrix plus a number times the identity, in place."""
    matrix.diagonal().add_(number)
    return matrix
