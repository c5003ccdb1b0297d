"""The kinds of heads: closed forms on features F (n, D), labels, class texts T (D, C) and their logit scale s.

A kind is its setting (a frozen value of hyperparameters) with three functions of the few-shot images alone:

* `tried` lists the settings to choose from, the one nearest to the texts alone first,
* `fit` makes the head of a setting,
* `left_out` gives, for every setting tried, the logits (n, C) of each image by a head of all folds but its own (rows of
  images that are never left out mean nothing). Where leaving out has a closed form it is used; tests hold it against
  the loop that fits a head for every fold.

Weights count in units of s, so that they mean the same for texts of any logit scale. `DEFAULT` is for one shot, where
nothing can be left out: of the middle of what was chosen at two shots of two sets of photographs (docs/heads.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import torch
from torch import Tensor

from wsoup.core.scoring import normalize
from wsoup.heads.fewshot import FewShot
from wsoup.heads.fitted import Fitted, kernel


@dataclass(frozen=True)
class Prototypes:
    """s f.T + a f.mu_c, with mu_c the normalised mean of the class's images (Snell et al., arXiv 1703.05175).

    There the nearest mean by squared distance is taken; of means of length 1 that is the largest f.mu_c.
    """

    weight: float
    """a / s."""
    DEFAULT: ClassVar[Prototypes]

    @staticmethod
    def tried(shots: FewShot) -> list[Prototypes]:
        """From the texts alone to next to no texts."""
        return [Prototypes(weight) for weight in (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)]

    def fit(self, shots: FewShot) -> Fitted:
        """A linear head without a bias."""
        means = normalize(shots.one_hot.T @ shots.features)  # (C, D)
        return Fitted.linear(shots.logit_scale * (shots.texts + self.weight * means.T))

    @staticmethod
    def left_out(shots: FewShot) -> Iterator[tuple[Prototypes, Tensor]]:
        """The sum of a class without one of its images is a subtraction."""
        cosines = torch.zeros_like(shots.one_hot)
        sums = shots.one_hot.T @ shots.features
        for fold in range(shots.n_folds):
            rows = shots.folds == fold
            means = normalize(sums - shots.one_hot[rows].T @ shots.features[rows])
            cosines[rows] = shots.features[rows] @ means.T
        texts = shots.text_logits(shots.features)
        for setting in Prototypes.tried(shots):
            yield setting, texts + shots.logit_scale * setting.weight * cosines


@dataclass(frozen=True)
class Tip:
    """s f.T + a exp(-b (1 - f.F')) L, L one-hot labels: Tip-Adapter (Zhang et al., arXiv 2111.03930)."""

    weight: float
    """a / s."""
    sharpness: float
    """b."""
    DEFAULT: ClassVar[Tip]

    @staticmethod
    def tried(shots: FewShot) -> list[Tip]:
        """A small b looks at a class's images together, as its mean does; a large one at the nearest image."""
        weights, sharpness = (0.0, 0.05, 0.15, 0.5, 1.5, 5.0, 15.0, 50.0), (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
        return [Tip(weight, b) for b, weight in product(sharpness, weights)]

    def fit(self, shots: FewShot) -> Fitted:
        """The few-shot images are kept, with a times their labels."""
        weights = shots.logit_scale * self.weight * shots.one_hot
        classifier = shots.logit_scale * shots.texts
        bias = classifier.new_zeros(shots.n_classes)
        return Fitted(classifier, bias, shots.features, weights, self.sharpness)

    @staticmethod
    def left_out(shots: FewShot) -> Iterator[tuple[Tip, Tensor]]:
        """Images of the own fold are taken out of the sum."""
        together = shots.folds[:, None] == shots.folds[None, :]  # (n, n)
        texts = shots.text_logits(shots.features)
        near = {}
        for setting in Tip.tried(shots):
            if setting.sharpness not in near:
                near = {setting.sharpness: kernel(shots.features, shots.features, sharpness=setting.sharpness)}
                sums = near[setting.sharpness].masked_fill_(together, 0.0) @ shots.one_hot
            yield setting, texts + shots.logit_scale * setting.weight * sums


@dataclass(frozen=True)
class Gda:
    """s f.T + a (f W + b), Gaussians of one shared covariance: W = mu Sigma^-1, b = -mu Sigma^-1 mu / 2.

    Sigma^-1 = D pinv((n - 1) Cov + tr(Cov) I) shrinks it, Cov the covariance within classes over n - 1 (Wang et al.,
    arXiv 2402.04087). Without any spread within classes, as with one shot, all directions count alike: Sigma^-1 = D I.
    """

    weight: float
    """a / s."""
    DEFAULT: ClassVar[Gda]

    @staticmethod
    def tried(shots: FewShot) -> list[Gda]:
        """From the texts alone to next to no texts."""
        return [Gda(weight) for weight in (0.0, 1.5e-4, 5e-4, 1.5e-3, 5e-3, 1.5e-2, 5e-2, 0.15, 0.5)]

    def fit(self, shots: FewShot) -> Fitted:
        """A linear head with a bias."""
        weights, bias = gaussians(shots)
        a = shots.logit_scale * self.weight
        return Fitted.linear(shots.logit_scale * shots.texts + a * weights, a * bias)

    @staticmethod
    def left_out(shots: FewShot) -> Iterator[tuple[Gda, Tensor]]:
        """One (D, D) inverse for each fold, whatever the weights are."""
        discriminants = torch.zeros_like(shots.one_hot)
        for fold in range(shots.n_folds):
            rows = shots.folds == fold
            weights, bias = gaussians(shots.without(fold))
            discriminants[rows] = shots.features[rows] @ weights + bias
        texts = shots.text_logits(shots.features)
        for setting in Gda.tried(shots):
            yield setting, texts + shots.logit_scale * setting.weight * discriminants


def gaussians(shots: FewShot) -> tuple[Tensor, Tensor]:
    """W (D, C) and b (C,) of the Gaussians of the classes, as `Gda` says; equal priors."""
    n, size = shots.features.shape
    means = (shots.one_hot.T @ shots.features) / shots.one_hot.sum(dim=0)[:, None]  # (C, D)
    apart = shots.features - means[shots.labels]
    scatter = apart.T @ apart  # (n - 1) Cov
    spread = scatter.trace() / max(1, n - 1)
    eye = torch.eye(size, dtype=scatter.dtype)
    inverse = size * (torch.linalg.inv(scatter + spread * eye) if spread > 1e-12 else eye)
    weights = inverse @ means.T
    return weights, -(means.T * weights).sum(dim=0) / 2


@dataclass(frozen=True)
class Ridge:
    """s f.T + k(f, F)(K + lambda I)^-1 (s Y - s F.T): kernel ridge on what the texts leave (ProKeR, arXiv 2501.11175).

    K is the kernel exp(-b (1 - f.f')) of the few-shot images. The wanted logits are s for the own class and 0 for the
    others, the texts' own units: a cosine of 1 with the own class.
    """

    penalty: float
    """lambda."""
    sharpness: float
    """b."""
    DEFAULT: ClassVar[Ridge]

    @staticmethod
    def tried(shots: FewShot) -> list[Ridge]:
        """A large lambda stays near the texts; a small b is nearly linear in f."""
        penalties, sharpness = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01), (0.25, 0.5, 1.0, 2.0, 4.0)
        return [Ridge(penalty, b) for b, penalty in product(sharpness, penalties)]

    def fit(self, shots: FewShot) -> Fitted:
        """The few-shot images are kept, with what each of them adds to every class."""
        gram = kernel(shots.features, shots.features, sharpness=self.sharpness)
        gram.diagonal().add_(self.penalty)
        weights = torch.linalg.solve(gram, _residual(shots))
        classifier = shots.logit_scale * shots.texts
        return Fitted(classifier, classifier.new_zeros(shots.n_classes), shots.features, weights, self.sharpness)

    @staticmethod
    def left_out(shots: FewShot) -> Iterator[tuple[Ridge, Tensor]]:
        """Of a fold B that is left out, prediction minus target is -(H_BB)^-1 (H R)_B, with H = (K + lambda I)^-1.

        H is never made: of K = V diag(v) V^T it takes n^2 products for each column of H_BB and H R.
        """
        residual = _residual(shots)
        texts = shots.text_logits(shots.features)
        folds = [(shots.folds == fold).nonzero()[:, 0] for fold in range(shots.n_folds)]
        decomposed = {}
        for setting in Ridge.tried(shots):
            if setting.sharpness not in decomposed:
                gram = kernel(shots.features, shots.features, sharpness=setting.sharpness)
                values, vectors = torch.linalg.eigh(gram)
                decomposed = {setting.sharpness: (values, vectors, vectors.T @ residual)}
            values, vectors, turned = decomposed[setting.sharpness]
            logits = texts.clone()
            for rows in folds:
                own = vectors[rows] / (values + setting.penalty)
                logits[rows] += residual[rows] - torch.linalg.solve(own @ vectors[rows].T, own @ turned)
            yield setting, logits


def _residual(shots: FewShot) -> Tensor:
    return shots.logit_scale * shots.one_hot - shots.text_logits(shots.features)


Setting = Prototypes | Tip | Gda | Ridge
KINDS: dict[str, type[Setting]] = {"prototypes": Prototypes, "tip": Tip, "gda": Gda, "ridge": Ridge}
"""By name, as in params.yaml."""
Prototypes.DEFAULT = Prototypes(2.0)
Tip.DEFAULT = Tip(5.0, 1.0)
Gda.DEFAULT = Gda(5e-3)
Ridge.DEFAULT = Ridge(0.01, 0.5)
