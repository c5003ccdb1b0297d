"""The kinds of heads: hand-computed logits, slow oracles, scikit-learn where it agrees."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from heads_cases import few_shots, on_a_circle, unit
from torch import Tensor

from wsoup.heads.fewshot import FewShot
from wsoup.heads.kinds import KINDS, Gda, Prototypes, Ridge, Tip, gaussians

SETTINGS = [Prototypes(2.0), Tip(1.5, 2.0), Gda(5e-3), Ridge(0.1, 1.0)]


def others(shots: FewShot, n=5) -> Tensor:
    draw = torch.Generator().manual_seed(9)
    return unit(torch.randn(n, shots.features.shape[1], generator=draw, dtype=torch.float64))


# ------------------------------------------------------------------------------------------------- by hand


@pytest.fixture
def circle() -> FewShot:
    """Images at 0 and 60 degrees are of class 0, with mean 30; one at 120 of class 1. Texts at 0 and 90; s = 10."""
    texts = on_a_circle(0, 90).T
    return FewShot(on_a_circle(0, 60, 120), torch.tensor([0, 0, 1]), texts, 10.0)


def test_prototypes_add_the_cosine_with_the_mean(circle):
    logits = Prototypes(2.0).fit(circle).logits(on_a_circle(30))
    assert logits[0].tolist() == pytest.approx([10 * math.cos(math.pi / 6) + 20, 10 * 0.5 + 20 * 0])


def test_tip_adds_the_labels_of_near_images(circle):
    logits = Tip(2.0, 1.0).fit(circle).logits(on_a_circle(60))
    near = 20 * (math.exp(-0.5) + 1), 20 * math.exp(-0.5)
    assert logits[0].tolist() == pytest.approx([5 + near[0], 10 * math.sin(math.pi / 3) + near[1]])


def test_gda_of_one_shot_is_the_nearest_mean():
    shots = FewShot(on_a_circle(0, 90), torch.tensor([0, 1]), on_a_circle(45, 45).T, 1.0)
    weights, bias = gaussians(shots)
    np.testing.assert_allclose(weights.T, [[2, 0], [0, 2]], atol=1e-12)
    assert bias.tolist() == pytest.approx([-1, -1])


def test_ridge_without_a_penalty_reaches_its_targets(circle):
    logits = Ridge(1e-12, 1.0).fit(circle).logits(circle.features)
    np.testing.assert_allclose(logits, [[10, 0], [10, 0], [0, 10]], atol=1e-6)


# ------------------------------------------------------------------------------------------- slow oracles, in loops


def slow_prototypes(shots: FewShot, image: np.ndarray, setting: Prototypes) -> list[float]:
    f, y, t, s = shots.features.numpy(), shots.labels.numpy(), shots.texts.numpy(), shots.logit_scale
    logits = []
    for c in range(t.shape[1]):
        mean = np.mean([f[i] for i in range(len(f)) if y[i] == c], axis=0)
        logits.append(s * float(image @ t[:, c]) + setting.weight * s * float(image @ (mean / np.linalg.norm(mean))))
    return logits


def slow_tip(shots: FewShot, image: np.ndarray, setting: Tip) -> list[float]:
    f, y, t, s = shots.features.numpy(), shots.labels.numpy(), shots.texts.numpy(), shots.logit_scale
    logits = [s * float(image @ t[:, c]) for c in range(t.shape[1])]
    for i in range(len(f)):
        logits[y[i]] += setting.weight * s * math.exp(-setting.sharpness * (1 - float(image @ f[i])))
    return logits


def slow_gda(shots: FewShot, image: np.ndarray, setting: Gda) -> list[float]:
    f, y, t, s = shots.features.numpy(), shots.labels.numpy(), shots.texts.numpy(), shots.logit_scale
    n, size = f.shape
    means = [np.mean(f[y == c], axis=0) for c in range(t.shape[1])]
    cov = sum(np.outer(f[i] - means[y[i]], f[i] - means[y[i]]) for i in range(n)) / (n - 1)
    inverse = size * np.linalg.pinv((n - 1) * cov + np.trace(cov) * np.eye(size))
    logits = []
    for c, mean in enumerate(means):
        discriminant = float(image @ inverse @ mean) - float(mean @ inverse @ mean) / 2
        logits.append(s * float(image @ t[:, c]) + setting.weight * s * discriminant)
    return logits


def slow_ridge(shots: FewShot, image: np.ndarray, setting: Ridge) -> list[float]:
    f, y, t, s = shots.features.numpy(), shots.labels.numpy(), shots.texts.numpy(), shots.logit_scale
    n = len(f)

    def near(one: np.ndarray, other: np.ndarray) -> float:
        return math.exp(-setting.sharpness * np.sum((one - other) ** 2) / 2)

    gram = np.array([[near(f[i], f[j]) + setting.penalty * (i == j) for j in range(n)] for i in range(n)])
    logits = []
    for c in range(t.shape[1]):
        left = np.array([s * (y[i] == c) - s * float(f[i] @ t[:, c]) for i in range(n)])
        dual = np.linalg.solve(gram, left)
        logits.append(s * float(image @ t[:, c]) + sum(dual[i] * near(image, f[i]) for i in range(n)))
    return logits


SLOW = {Prototypes: slow_prototypes, Tip: slow_tip, Gda: slow_gda, Ridge: slow_ridge}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: type(setting).__name__)
@pytest.mark.parametrize("counts", [(3, 3, 3, 3), (1, 4, 2), (2, 2)])
def test_a_head_follows_its_formula(setting, counts):
    shots = few_shots(counts=counts)
    images = others(shots)
    slow = [SLOW[type(setting)](shots, image, setting) for image in images.numpy()]
    np.testing.assert_allclose(setting.fit(shots).logits(images), slow, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counts", [(3, 3, 3, 3), (1, 4, 2), (2, 2)])
def test_left_out_equals_the_loop_over_folds(kind, counts):
    """Closed forms against heads fitted without each fold, all of which see the only image of a class."""
    shots = few_shots(counts=counts)
    settings = KINDS[kind].settings()
    left_out = dict(KINDS[kind].left_out(shots))
    assert list(left_out) == settings
    for setting in settings:
        for fold in range(shots.n_folds):
            rows = shots.folds == fold
            looped = setting.fit(shots.without(fold)).logits(shots.features[rows])
            np.testing.assert_allclose(left_out[setting][rows], looped, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_left_out_image_does_not_affect_its_own_logits(kind):
    shots = few_shots()
    moved = shots.features.clone()
    fold = shots.folds == 1
    moved[fold] = unit(-moved[fold] + 0.1)
    for (setting, before), (_, after) in zip(
        KINDS[kind].left_out(shots),
        KINDS[kind].left_out(FewShot(moved, shots.labels, shots.texts, shots.logit_scale)),
        strict=True,
    ):
        head = setting.fit(shots.without(1))
        np.testing.assert_allclose(before[fold], head.logits(shots.features[fold]), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(after[fold], head.logits(moved[fold]), rtol=1e-6, atol=1e-6)


# ----------------------------------------------------------------------------------------- scikit-learn's, where equal


def test_gda_is_scikit_learns_discriminant_with_that_covariance():
    pytest.importorskip("sklearn")
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    shots = few_shots(counts=(4, 4, 4))
    features, labels = shots.features.numpy(), shots.labels.numpy()

    class Shrunk:
        """A covariance estimator that returns the shared covariance for any images."""

        def fit(self, _):
            n, size = features.shape
            centred = features - np.stack([features[labels == c].mean(axis=0) for c in range(3)])[labels]
            scatter = centred.T @ centred
            self.covariance_ = (scatter + np.trace(scatter) / (n - 1) * np.eye(size)) / size
            return self

    theirs = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=Shrunk()).fit(features, labels)
    weights, bias = gaussians(shots)
    np.testing.assert_allclose(weights.T, theirs.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(bias, theirs.intercept_ + math.log(3), rtol=1e-6, atol=1e-9)


def test_ridge_is_scikit_learns_kernel_ridge_on_the_residual():
    pytest.importorskip("sklearn")
    from sklearn.kernel_ridge import KernelRidge

    shots = few_shots()
    images = others(shots)
    left = shots.logit_scale * (shots.one_hot - shots.features @ shots.texts)
    theirs = KernelRidge(alpha=0.3, kernel="rbf", gamma=2.0 / 2).fit(shots.features.numpy(), left.numpy())
    ours = Ridge(0.3, 2.0).fit(shots).logits(images) - shots.text_logits(images)
    np.testing.assert_allclose(ours, theirs.predict(images.numpy()), rtol=1e-8, atol=1e-9)


# ---------------------------------------------------------------------------------------------------- identities


@pytest.mark.parametrize("setting", [Prototypes(0.0), Tip(0.0, 2.0), Gda(0.0), Ridge(1e15, 1.0)])
def test_without_weight_a_head_equals_its_texts(setting):
    shots = few_shots()
    images = others(shots)
    np.testing.assert_allclose(setting.fit(shots).logits(images), shots.text_logits(images), atol=1e-9)


def test_a_wide_kernel_makes_tip_the_sum_of_cosines():
    """exp(-b (1 - c)) is 1 - b + b c for a small b: prototypes that are sums, and a constant."""
    shots = few_shots()
    images = others(shots)
    added = Tip(1e6, 1e-6).fit(shots).logits(images) - shots.text_logits(images)
    sums = shots.logit_scale * images @ (shots.one_hot.T @ shots.features).T
    apart = added - sums
    np.testing.assert_allclose(apart - apart[:, :1], np.zeros_like(apart), atol=1e-3)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: type(setting).__name__)
def test_logits_scale_with_the_logit_scale(setting):
    """Weights are in units of s, so another s scales all logits alike and changes no prediction."""
    shots = few_shots()
    twice = FewShot(shots.features, shots.labels, shots.texts, 2 * shots.logit_scale)
    images = others(shots)
    np.testing.assert_allclose(setting.fit(twice).logits(images), 2 * setting.fit(shots).logits(images), rtol=1e-9)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: type(setting).__name__)
def test_the_order_of_few_shot_images_is_irrelevant(setting):
    shots = few_shots()
    turned = FewShot(shots.features.flip(0), shots.labels.flip(0), shots.texts, shots.logit_scale)
    images = others(shots)
    np.testing.assert_allclose(setting.fit(turned).logits(images), setting.fit(shots).logits(images), rtol=1e-9)
