"""The kinds of heads: hand-computed logits, slow oracles, identities."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
import torch
from half_done import unused
from heads_cases import few_shots, left_out_logits, on_a_circle, unit
from torch import Tensor

from wsoup.heads import differences
from wsoup.heads.choose import choose
from wsoup.heads.fewshot import FewShot
from wsoup.heads.kinds import PARTS
from wsoup.heads.params import HeadParams
from wsoup.heads.prototypes import ClassMeans, Prototypes
from wsoup.heads.ridge import Ridge

SETTINGS = [Prototypes(2.0), Ridge(0.1)]
KINDS = [Prototypes, Ridge]
COUNTS = [(3, 3, 3, 3), (1, 4, 2), (2, 2), (2,) * 8, (2, 2, 2, 2, 2, 2, 4)]
"""Twelve images of six numbers each, seven, four, and sixteen in folds of eight: more images than numbers. Then sixteen
in folds of seven, seven, one and one."""


def others(shots: FewShot, n=5) -> Tensor:
    draw = torch.Generator().manual_seed(9)
    return unit(torch.randn(n, shots.features.shape[1], generator=draw, dtype=torch.float64))


def test_everything_is_used():
    assert not unused("heads"), "\n".join(unused("heads"))


def test_every_kind_of_params_is_made_of_parts():
    named = set(get_args(HeadParams.model_fields["kind"].annotation))
    assert not named - PARTS.keys(), f"wsoup/heads/kinds.py: PARTS has no {sorted(named - PARTS.keys())}"
    assert not PARTS.keys() - named, f"wsoup/heads/params.py: HeadParams.kind has no {sorted(PARTS.keys() - named)}"
    parts = {part for of_kind in PARTS.values() for part in of_kind}
    unknown = parts - {*KINDS, ClassMeans}
    assert not unknown, f"tests/heads/test_kinds.py: KINDS has no {unknown}, so no test compares it with an oracle"


# ------------------------------------------------------------------------------------------------- by hand


def test_prototypes_add_the_cosine_with_the_mean():
    """Images at 0 and 60 degrees are of class 0, with mean 30; one at 120 of class 1. Texts at 0 and 90; s = 10."""
    circle = FewShot(on_a_circle(0, 60, 120), torch.tensor([0, 0, 1]), on_a_circle(0, 90).T, 10.0)
    logits = on_a_circle(30) @ Prototypes(2.0).fit(circle)
    assert logits[0].tolist() == pytest.approx([10 * math.cos(math.pi / 6) + 20, 10 * 0.5 + 20 * 0])


def test_ridge_halves_what_is_missing_at_a_penalty_of_one():
    """Two images of length 1 at right angles, which the texts know nothing of: targets are 10 and 0, half apart is 5.

    What both share is scaled by the square root of 2 / 4, over 1.1 for a rough agreement: of the sum of targets, 10, it
    explains its square by itself and the penalty.
    """
    shots = FewShot(on_a_circle(0, 90), torch.tensor([0, 1]), torch.zeros(2, 2, dtype=torch.float64), 10.0)
    logits = shots.features @ Ridge(1.0).fit(shots)
    shared = 0.5 / 1.1**2
    np.testing.assert_allclose(logits[:, 0] - logits[:, 1], [5, -5], atol=1e-12)
    np.testing.assert_allclose(logits.sum(dim=1), [10 * shared / (shared + 1)] * 2, atol=1e-12)


def test_three_images_of_a_class_count_as_much_in_ridge_as_one_of_another(monkeypatch):
    """Class 0 has the image at 0 degrees three times over: each has weight 2/3, the other's 2, as if both had two."""
    monkeypatch.setattr(differences, "noise", lambda shots: 0.5)
    of = on_a_circle(0, 0, 0, 50), torch.tensor([0, 0, 0, 1])
    twice = on_a_circle(0, 0, 50, 50), torch.tensor([0, 0, 1, 1])
    one, other = (Ridge(1.0).fit(FewShot(*images, on_a_circle(10, 70).T, 10.0)) for images in (of, twice))
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_settings_begin_with_the_one_closest_to_the_texts_alone():
    """Ties go to the first: a small weight or a large penalty leaves little beside the texts."""
    weights = [setting.weight for setting in Prototypes.settings()]
    penalties = [setting.penalty for setting in Ridge.settings()]
    assert weights[0] == 1 / 32
    assert weights == sorted(weights)
    assert penalties == sorted(penalties, reverse=True)


def test_a_penalty_is_at_most_30_and_at_least_three_tenths():
    """Texts that know the images count as the prior's 8.0, of those offered 10; wrong ones give way."""
    images = on_a_circle(*range(8), *range(60, 68)), torch.arange(2).repeat_interleave(8)
    assert (Ridge.settings()[0].penalty, Ridge.settings()[-1].penalty) == (30.0, 0.3)
    for texts, penalty in (((4, 64), 10.0), ((64, 4), 0.3)):
        shots = FewShot(*images, on_a_circle(*texts).T, 20.0)
        assert choose(shots, kind="ridge").setting == {"penalty": penalty}


# ------------------------------------------------------------------------------------------- slow oracles, in loops


def slow_prototypes(shots: FewShot, image: np.ndarray, setting: Prototypes, *, without: int | None) -> list[float]:
    f, y, t, s = shots.features.numpy(), shots.labels.numpy(), shots.texts.numpy(), shots.logit_scale
    logits = []
    for c in range(t.shape[1]):
        mean = np.mean([f[i] for i in range(len(f)) if y[i] == c and shots.folds[i] != without], axis=0)
        logits.append(s * float(image @ t[:, c]) + setting.weight * s * float(image @ (mean / np.linalg.norm(mean))))
    return logits


def variance_between(vectors: np.ndarray, of: np.ndarray) -> float:
    """Half of the mean squared distance of vectors of different classes, each pair of classes counting the same."""
    by_pair = []
    for c in range(max(of) + 1):
        for d in range(c):
            distances = [((a - b) ** 2).sum() / 2 for a in vectors[of == c] for b in vectors[of == d]]
            by_pair.append(np.mean(distances))
    return float(np.mean(by_pair))


def slow_differences(shots: FewShot) -> tuple[np.ndarray, float]:
    """The matrix (D, D) that measures images, and the target of a logit."""
    f, y, t = shots.features.numpy(), shots.labels.numpy(), shots.texts.numpy().T
    (n, size), n_classes = f.shape, len(t)
    variance = variance_between(f, y)
    system, moments = 0.1 * variance * np.eye(size), np.zeros(size)
    for i in range(n):
        weight = n / n_classes / sum(y == y[i])
        system += weight * np.outer(f[i], f[i])
        moments += weight * f[i]
    shared = np.linalg.solve(system, moments)
    noise = np.mean([1 / sum(y == c) for c in range(n_classes)])
    length = np.linalg.norm(shared)
    onto = np.outer(shared, shared) / length**2
    matrix = (np.eye(size) - onto) / math.sqrt(variance) + math.sqrt(noise / 4) * length * onto
    return matrix, shots.logit_scale * math.sqrt(variance * variance_between(t, np.arange(n_classes)))


def slow_ridge(shots: FewShot, image: np.ndarray, setting: Ridge, *, without: int | None) -> list[float]:
    """The normal equations, image by image; weights are those of all images."""
    f, y, t, s = shots.features.numpy(), shots.labels.numpy(), shots.texts.numpy(), shots.logit_scale
    (n, size), n_classes = f.shape, t.shape[1]
    matrix, target = slow_differences(shots)
    gram, moments = setting.penalty * np.eye(size), np.zeros((size, n_classes))
    for i in range(n):
        if shots.folds[i] != without:
            weight = n / n_classes / sum(y == y[i])
            gram += weight * np.outer(matrix @ f[i], matrix @ f[i])
            missing = [target * (y[i] == c) - s * float(f[i] @ t[:, c]) for c in range(n_classes)]
            moments += weight * np.outer(matrix @ f[i], missing)
    extra = np.linalg.solve(gram, moments)
    return [s * float(image @ t[:, c]) + float(matrix @ image @ extra[:, c]) for c in range(n_classes)]


SLOW = {Prototypes: slow_prototypes, Ridge: slow_ridge}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: type(setting).__name__)
@pytest.mark.parametrize("counts", COUNTS)
def test_a_head_follows_its_formula(setting, counts):
    shots = few_shots(counts=counts)
    images = others(shots)
    slow = [SLOW[type(setting)](shots, image, setting, without=None) for image in images.numpy()]
    np.testing.assert_allclose(images @ setting.fit(shots), slow, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counts", COUNTS)
def test_left_out_equals_the_loop_over_folds(kind, counts):
    """Closed forms against heads fitted without each fold, all of which see the only image of a class."""
    shots = few_shots(counts=counts)
    left_out = left_out_logits(kind, shots)
    for setting in kind.settings():
        for i, fold in enumerate(shots.folds.tolist()):
            if fold >= 0:
                slow = SLOW[kind](shots, shots.features[i].numpy(), setting, without=fold)
                np.testing.assert_allclose(left_out[setting][i], slow, rtol=1e-8, atol=1e-8)
            else:
                assert left_out[setting][i].isnan().all(), "its class would have no image"


def test_class_means_know_no_texts():
    """Images at 0 and 20 degrees and at 90: means at 10 and 90, whatever the texts; left out, the other image."""
    images = on_a_circle(0, 20, 90, 90.5), torch.tensor([0, 0, 1, 1])
    shots = FewShot(*images, on_a_circle(90, 0).T, 2.0)
    torch.testing.assert_close(ClassMeans().fit(shots), 2 * on_a_circle(10, 90.25).T)
    first_fold = next(iter(ClassMeans.left_out(shots).logits(ClassMeans())))[1]
    torch.testing.assert_close(first_fold, 2 * on_a_circle(0, 90) @ on_a_circle(20, 90.5).T)
    assert choose(shots, kind="means").right.tolist() == [True] * 4
