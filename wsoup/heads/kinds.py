"""The kinds of heads: closed forms on features F (n, D), labels, class texts T (D, C) and the logit scale s.

A kind is a frozen dataclass of its hyperparameters (a setting) with three functions:

* `settings` lists the settings to choose from, the one closest to the texts alone first,
* `fit` fits a setting to few-shot images,
* `left_out` yields for every setting the logits (n, C) of each image by a head fitted without its fold (rows of images
  that are in no fold are meaningless). Closed forms are used where they exist, and tested against the loop over folds.

Weights are in units of s, which makes them independent of the logit scale. Default hyperparameters are for one shot,
where nothing can be left out; they are typical of what was chosen for two shots of two sets of photographs
(docs/notes/heads.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby, product

import torch
from torch import Tensor

from wsoup.core.scoring import normalize
from wsoup.heads.fewshot import FewShot

ARRAYS = ("classifier", "bias", "support", "weights")
"""Tensors of `Fitted`."""


@dataclass(frozen=True)
class Fitted:
    """What every head computes: logits = f W + b + exp(-sharpness (1 - f F'^T)) A.

    Attributes:
        classifier: W (D, C).
        bias: b (C,).
        support: F' (n, D), few-shot images; no rows if the head is linear.
        weights: A (n, C).
        sharpness: how fast the weight of a few-shot image falls with distance.
    """

    classifier: Tensor
    bias: Tensor
    support: Tensor
    weights: Tensor
    sharpness: float

    @classmethod
    def linear(cls, classifier: Tensor, bias: Tensor | None = None) -> Fitted:
        """A head without the kernel."""
        size, n_classes = classifier.shape
        none = classifier.new_zeros(0, size), classifier.new_zeros(0, n_classes)
        return cls(classifier, classifier.new_zeros(n_classes) if bias is None else bias, *none, 0.0)

    @property
    def is_linear(self) -> bool:
        """Whether there is no kernel."""
        return not len(self.support)

    @property
    def n_numbers(self) -> int:
        """Number of stored parameters."""
        return sum(getattr(self, name).numel() for name in ARRAYS)

    def logits(self, features: Tensor) -> Tensor:
        """(N, D) -> (N, C)."""
        linear = features @ self.classifier + self.bias
        if self.is_linear:
            return linear
        return linear + kernel(features, self.support, sharpness=self.sharpness) @ self.weights

    def to(self, dtype: torch.dtype) -> Fitted:
        """The same head in another dtype, contiguous as when read from a file, so that products agree to the bit."""
        arrays = {name: getattr(self, name).to(dtype).contiguous() for name in ARRAYS}
        return Fitted(**arrays, sharpness=self.sharpness)


def kernel(features: Tensor, others: Tensor, *, sharpness: float) -> Tensor:
    """exp(-b (1 - f.f')) of unit rows, a Gaussian of their distance with variance 1 / b: (N, D), (n, D) -> (N, n)."""
    return torch.exp(-sharpness * (1 - features @ others.T))


@dataclass(frozen=True)
class Prototypes:
    """s f.T + a f.mu_c, with mu_c the normalised mean of the class's images (Snell et al., arXiv 1703.05175).

    The paper takes the nearest mean by squared distance, which for means of length 1 is the largest f.mu_c.
    """

    weight: float = 2.0
    """a / s."""

    @staticmethod
    def settings() -> list[Prototypes]:
        """From the texts alone to almost no texts."""
        return [Prototypes(weight) for weight in (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)]

    def fit(self, shots: FewShot) -> Fitted:
        """A linear head without a bias."""
        means = normalize(shots.one_hot.T @ shots.features)  # (C, D)
        return Fitted.linear(shots.logit_scale * (shots.texts + self.weight * means.T))

    @staticmethod
    def left_out(shots: FewShot) -> Iterator[tuple[Prototypes, Tensor]]:
        """Subtract each image from the sum of its class."""
        cosines = torch.zeros_like(shots.one_hot)
        sums = shots.one_hot.T @ shots.features
        for fold in range(shots.n_folds):
            rows = shots.folds == fold
            means = normalize(sums - shots.one_hot[rows].T @ shots.features[rows])
            cosines[rows] = shots.features[rows] @ means.T
        texts = shots.text_logits(shots.features)
        for setting in Prototypes.settings():
            yield setting, texts + shots.logit_scale * setting.weight * cosines


@dataclass(frozen=True)
class Tip:
    """s f.T + a exp(-b (1 - f.F')) L, L one-hot labels: Tip-Adapter (Zhang et al., arXiv 2111.03930)."""

    weight: float = 5.0
    """a / s."""
    sharpness: float = 1.0
    """b."""

    @staticmethod
    def settings() -> list[Tip]:
        """A small b averages a class's images, as its mean does; a large one picks the nearest."""
        weights, sharpness = (0.0, 0.05, 0.15, 0.5, 1.5, 5.0, 15.0, 50.0), (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
        return [Tip(weight, b) for b, weight in product(sharpness, weights)]

    def fit(self, shots: FewShot) -> Fitted:
        """A kernel head whose weights are a times the one-hot labels."""
        weights = shots.logit_scale * self.weight * shots.one_hot
        texts = Fitted.linear(shots.logit_scale * shots.texts)
        return replace(texts, support=shots.features, weights=weights, sharpness=self.sharpness)

    @staticmethod
    def left_out(shots: FewShot) -> Iterator[tuple[Tip, Tensor]]:
        """Leave an image's own fold out of the kernel sum."""
        together = shots.folds[:, None] == shots.folds[None, :]  # (n, n)
        texts = shots.text_logits(shots.features)
        for sharpness, settings in groupby(Tip.settings(), key=lambda setting: setting.sharpness):
            near = kernel(shots.features, shots.features, sharpness=sharpness)
            sums = near.masked_fill_(together, 0.0) @ shots.one_hot
            for setting in settings:
                yield setting, texts + shots.logit_scale * setting.weight * sums


@dataclass(frozen=True)
class Gda:
    """s f.T + a (f W + b), Gaussians of one shared covariance: W = mu Sigma^-1, b = -mu Sigma^-1 mu / 2.

    Sigma^-1 = D pinv((n - 1) Cov + tr(Cov) I) is a shrinkage estimate, Cov being the within-class covariance with
    denominator n - 1 (Wang et al., arXiv 2402.04087). If there is no spread within classes, as with one shot,
    Sigma^-1 = D I.
    """

    weight: float = 5e-3
    """a / s."""

    @staticmethod
    def settings() -> list[Gda]:
        """From the texts alone to almost no texts."""
        return [Gda(weight) for weight in (0.0, 1.5e-4, 5e-4, 1.5e-3, 5e-3, 1.5e-2, 5e-2, 0.15, 0.5)]

    def fit(self, shots: FewShot) -> Fitted:
        """A linear head with a bias."""
        weights, bias = gaussians(shots)
        a = shots.logit_scale * self.weight
        return Fitted.linear(shots.logit_scale * shots.texts + a * weights, a * bias)

    @staticmethod
    def left_out(shots: FewShot) -> Iterator[tuple[Gda, Tensor]]:
        """One (D, D) inverse per fold serves all weights."""
        discriminants = torch.zeros_like(shots.one_hot)
        for fold in range(shots.n_folds):
            rows = shots.folds == fold
            weights, bias = gaussians(shots.without(fold))
            discriminants[rows] = shots.features[rows] @ weights + bias
        texts = shots.text_logits(shots.features)
        for setting in Gda.settings():
            yield setting, texts + shots.logit_scale * setting.weight * discriminants


def gaussians(shots: FewShot) -> tuple[Tensor, Tensor]:
    """W (D, C) and b (C,) of `Gda`, with equal class priors."""
    n, size = shots.features.shape
    means = (shots.one_hot.T @ shots.features) / shots.one_hot.sum(dim=0)[:, None]  # (C, D)
    centred = shots.features - means[shots.labels]
    scatter = centred.T @ centred  # (n - 1) Cov
    spread = scatter.trace() / max(1, n - 1)
    eye = torch.eye(size, dtype=scatter.dtype)
    inverse = size * (torch.linalg.inv(scatter + spread * eye) if spread > 1e-12 else eye)
    weights = inverse @ means.T
    return weights, -(means.T * weights).sum(dim=0) / 2


@dataclass(frozen=True)
class Ridge:
    """s f.T + k(f, F)(K + lambda I)^-1 (s Y - s F.T): kernel ridge on the texts' residual (ProKeR, arXiv 2501.11175).

    K is the kernel exp(-b (1 - f.f')) of the few-shot images. Target logits are s for the true class and 0 for the
    others, as a text with cosine 1 would give.
    """

    penalty: float = 0.01
    """lambda."""
    sharpness: float = 0.5
    """b."""

    @staticmethod
    def settings() -> list[Ridge]:
        """A large lambda stays close to the texts; a small b is nearly linear in f."""
        penalties, sharpness = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01), (0.25, 0.5, 1.0, 2.0, 4.0)
        return [Ridge(penalty, b) for b, penalty in product(sharpness, penalties)]

    def fit(self, shots: FewShot) -> Fitted:
        """A kernel head whose weights are the dual solution."""
        gram = kernel(shots.features, shots.features, sharpness=self.sharpness)
        gram.diagonal().add_(self.penalty)
        weights = torch.linalg.solve(gram, _residual(shots))
        texts = Fitted.linear(shots.logit_scale * shots.texts)
        return replace(texts, support=shots.features, weights=weights, sharpness=self.sharpness)

    @staticmethod
    def left_out(shots: FewShot) -> Iterator[tuple[Ridge, Tensor]]:
        """For a left-out fold B, prediction minus target is -(H_BB)^-1 (H R)_B, with H = (K + lambda I)^-1.

        H is never formed: with K = V diag(v) V^T each column of H_BB and H R takes n^2 products.
        """
        residual = _residual(shots)
        texts = shots.text_logits(shots.features)
        folds = [(shots.folds == fold).nonzero()[:, 0] for fold in range(shots.n_folds)]
        for sharpness, settings in groupby(Ridge.settings(), key=lambda setting: setting.sharpness):
            values, vectors = torch.linalg.eigh(kernel(shots.features, shots.features, sharpness=sharpness))
            rotated = vectors.T @ residual
            for setting in settings:
                logits = texts.clone()
                for rows in folds:
                    own = vectors[rows] / (values + setting.penalty)
                    logits[rows] += residual[rows] - torch.linalg.solve(own @ vectors[rows].T, own @ rotated)
                yield setting, logits


def _residual(shots: FewShot) -> Tensor:
    return shots.logit_scale * shots.one_hot - shots.text_logits(shots.features)


Setting = Prototypes | Tip | Gda | Ridge
KINDS: dict[str, type[Setting]] = {"prototypes": Prototypes, "tip": Tip, "gda": Gda, "ridge": Ridge}
"""By the name in params.yaml."""
