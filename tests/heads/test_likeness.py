"""How photos and texts lie: hand-computed angles, and that a cone of features changes nothing."""

from __future__ import annotations

import math

import pytest
import torch
from heads_cases import few_shots, in_cone, on_a_circle, unit

from wsoup.heads.fewshot import FewShot
from wsoup.heads.likeness import LEAST_VARIANCE, Likeness, likeness, noise, unevenness


def test_two_photos_at_60_degrees():
    """Their cosine is 1/2. There is but one pair of classes, so the spread is the usual one, of five pairs in six."""
    shots = FewShot(on_a_circle(0, 60), torch.arange(2), on_a_circle(0, 90).T, 10.0)
    of_agreement = math.cos(math.radians(15))
    assert likeness(shots) == pytest.approx(Likeness(0.5, 0.5, 0.12 * math.sqrt(5 / 6), of_agreement, 1.0))


def test_the_spread_is_of_the_cosines_of_photos_of_other_classes():
    """Photos at 0, 70 and 120 degrees; and each of them twice, whose cosine of 1 is of one class."""
    cosines = [math.cos(math.radians(degrees)) for degrees in (70, 50, 120)]
    similarity = sum(cosines) / 3
    squares = sum((cosine - similarity) ** 2 for cosine in cosines) / (1 - similarity) ** 2
    for labels in (torch.arange(3), torch.arange(3).repeat(2)):
        photos = on_a_circle(0, 70, 120)[labels]
        found = likeness(FewShot(photos, labels, on_a_circle(0, 70, 120).T, 10.0))
        assert (found.similarity, found.variance) == pytest.approx((similarity, 1 - similarity))
        assert found.spread == pytest.approx(math.sqrt((squares + 5 * 0.12**2) / (3 + 5)))


def test_each_pair_of_classes_counts_the_same():
    """Two photos at 0 and 90 degrees in one class, another at 120: cosines -1/2 and 0.87."""
    shots = FewShot(on_a_circle(0, 90, 120), torch.tensor([0, 0, 1]), on_a_circle(0, 90).T, 10.0)
    similarity = (math.sqrt(3) / 2 - 0.5) / 2
    assert likeness(shots).similarity == pytest.approx(similarity)
    measured = (0.75 + 0.25) / 2 - similarity**2
    assert likeness(shots).spread == pytest.approx(math.sqrt((measured / (1 - similarity) ** 2 + 5 * 0.12**2) / 6))


@pytest.mark.parametrize(
    ("texts", "known"),
    [((0, 60), 1), ((60, 120), 0.5), ((90, 150), 0), ((60, 0), 0)],
    ids=["lie as photos do", "turned by 60 degrees", "at right angles", "opposite"],
)
def test_texts_agree_with_photos_that_lie_alike(texts, known):
    shots = FewShot(on_a_circle(0, 60), torch.arange(2), on_a_circle(*texts).T, 10.0)
    assert likeness(shots).agreement == pytest.approx(known, abs=1e-9)


def test_what_all_texts_share_is_no_agreement():
    """Class 0 is at 0 and class 1 at 90 degrees, and so are their texts, but for a direction that all texts share."""
    photos = torch.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=torch.float64)
    texts = unit(photos + torch.tensor([0.0, 0, 5], dtype=torch.float64))
    assert likeness(FewShot(photos, torch.arange(2), texts.T, 10.0)).agreement == pytest.approx(1)
    alike = texts[:1].repeat(2, 1)
    of_alike = likeness(FewShot(photos, torch.arange(2), alike.T, 10.0))
    assert (of_alike.agreement, of_alike.variance_of_texts) == (0, LEAST_VARIANCE)


def test_photos_that_do_not_tell_classes_apart():
    shots = FewShot(on_a_circle(0, 0), torch.arange(2), on_a_circle(0, 180).T, 10.0)
    usual = 0.12 * math.sqrt(5 / 6)
    assert likeness(shots) == pytest.approx(Likeness(1, LEAST_VARIANCE, usual, 0, 2))


@pytest.mark.parametrize("counts", [(3, 3, 3, 3), (1, 4, 2), (12, 12)])
@pytest.mark.parametrize("cone", [0.5, 1.0, 2.0])
def test_a_cone_changes_nothing_but_the_similarity(counts, cone):
    shots = few_shots(counts=counts)
    plain, lifted = likeness(shots), likeness(in_cone(shots, cone=cone))
    shrunk = 1 + cone**2
    assert lifted.similarity == pytest.approx((plain.similarity + cone**2) / shrunk)
    assert (lifted.spread, lifted.agreement) == pytest.approx((plain.spread, plain.agreement))
    of = lifted.variance, lifted.variance_of_texts
    assert of == pytest.approx((plain.variance / shrunk, plain.variance_of_texts / shrunk))


def test_means_of_uneven_classes_are_as_noisy_as_those_of_fewer_photos():
    """One photo and three: noise (1 + 1/3) / 2 in place of 1/2."""
    even = FewShot(on_a_circle(0, 1, 60, 61), torch.tensor([0, 0, 1, 1]), on_a_circle(0, 60).T, 10.0)
    uneven = FewShot(on_a_circle(0, 59, 60, 61), torch.tensor([0, 1, 1, 1]), on_a_circle(0, 60).T, 10.0)
    assert (noise(even), unevenness(even)) == (1 / 2, 1)
    assert (noise(uneven), unevenness(uneven)) == pytest.approx((2 / 3, 4 / 3))
