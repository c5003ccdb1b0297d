"""Images measured by what tells them apart: by hand, and what a cone of features does to a head."""

from __future__ import annotations

import math

import pytest
import torch
from heads_cases import few_shots, in_cone, on_a_circle

from wsoup.heads.choose import choose
from wsoup.heads.differences import Differences
from wsoup.heads.fewshot import FewShot
from wsoup.heads.ridge import Ridge


def test_photos_at_0_and_60_degrees_agree_at_30():
    """Half of their squared distance is 1/2. Texts at right angles: 1. Both lie at cos 30 along what they share."""
    shots = FewShot(on_a_circle(0, 60), torch.arange(2), on_a_circle(0, 90).T, 10.0)
    found = Differences.of(shots)
    torch.testing.assert_close(found.direction, on_a_circle(30)[0])
    assert found.across == pytest.approx(math.sqrt(2))
    # g of length l makes 2 (l cos 30 - 1)^2 + 0.1 / 2 l^2 least.
    length = 2 * math.cos(math.pi / 6) / (2 * 0.75 + 0.05)
    assert found.along == pytest.approx(length / 2)
    assert found.target == pytest.approx(10 * math.sqrt(1 / 2))


def test_texts_give_the_same_logits_of_measured_images():
    shots = few_shots(counts=(2, 5, 3))
    measured = Differences.of(shots).measured(shots)
    torch.testing.assert_close(measured.text_logits(measured.features), shots.text_logits(shots.features))


def test_weights_of_measured_images_are_weights_of_images():
    shots = few_shots(counts=(2, 5, 3))
    found = Differences.of(shots)
    weights = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    by_images = shots.features @ found.classifier(weights)
    torch.testing.assert_close(found.measured(shots).features @ weights, by_images)


def test_photos_around_the_origin_share_nothing():
    shots = FewShot(on_a_circle(0, 180), torch.arange(2), on_a_circle(0, 180).T, 10.0)
    assert choose(shots, kind="ridge").classifier.isfinite().all()
    logits = shots.features @ Ridge(0.3).fit(shots)
    assert logits.argmax(dim=1).tolist() == [0, 1]


def test_texts_that_are_all_the_same_leave_the_answer_to_photos():
    shots = FewShot(on_a_circle(0, 60), torch.arange(2), on_a_circle(30, 30).T, 10.0)
    assert (shots.features @ Ridge(0.3).fit(shots)).argmax(dim=1).tolist() == [0, 1]


@pytest.mark.parametrize("counts", [(1, 1, 1, 1), (3, 3, 3, 3), (1, 4, 2), (16, 16, 16, 16)])
@pytest.mark.parametrize("cone", [1.0, 2.0])
def test_a_cone_hardly_changes_a_head(counts, cone):
    """Logits of other photos move by less than a fifth; with 16 photos a class, by a fourteenth.

    Those of a regression on the features themselves would move by a quarter with one photo, and with 16 in a cone of 2
    by twice as much as there is of them.
    """
    shots = few_shots(counts=counts, size=40)
    lifted = in_cone(shots, cone=cone)
    others = in_cone(few_shots(counts=(25, 25, 25, 25), size=40, seed=7), cone=cone).features
    setting = Ridge(2.0)
    plain = others[:, :40] * math.sqrt(1 + cone**2) @ setting.fit(shots)
    moved = others @ setting.fit(lifted) - plain
    moved -= moved.mean(dim=1, keepdim=True)
    spread = (plain - plain.mean(dim=1, keepdim=True)).std()
    assert float(moved.std() / spread) < 0.18
    assert choose(lifted, kind="ridge").setting == pytest.approx(choose(shots, kind="ridge").setting)
