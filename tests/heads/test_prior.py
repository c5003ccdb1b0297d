"""How many photos a text counts as: by hand, and the least of it."""

from __future__ import annotations

import math

import pytest
import torch
from heads_cases import few_shots, in_cone, on_a_circle

from wsoup.heads import choose as choosing
from wsoup.heads.choose import choose
from wsoup.heads.fewshot import FewShot
from wsoup.heads.likeness import likeness
from wsoup.heads.prior import PhotosPerText, photos_per_text

USUAL = 0.12 * math.sqrt(5 / 6)
"""The spread with two classes of one photo each."""


@pytest.mark.parametrize(("texts", "known"), [((0, 60), 1), ((60, 120), 0.5), ((90, 150), 0)])
def test_a_text_counts_as_more_photos_the_more_texts_lie_as_photos_do(texts, known):
    shots = FewShot(on_a_circle(0, 60), torch.arange(2), on_a_circle(*texts).T, 10.0)
    by_hand = max(0.15, 200 * (known + 0.01) * USUAL**1.5)
    assert photos_per_text(shots) == pytest.approx(PhotosPerText(by_hand, 0))


def test_a_text_counts_as_more_photos_the_fewer_ways_photos_differ_in():
    """Three at right angles, whose cosines are all 0, and three of which two are near each other."""
    classes = torch.arange(3)
    axes = torch.eye(3, dtype=torch.float64)
    apart = FewShot(axes, classes, axes, 10.0)
    assert photos_per_text(apart).expected == pytest.approx(200 * 1.01 * (0.12 * math.sqrt(5 / 8)) ** 1.5)
    near = axes.clone()
    near[1] = torch.tensor([0.8, 0.6, 0])
    shots = FewShot(near, classes, near.T.contiguous(), 10.0)
    assert photos_per_text(shots).expected == pytest.approx(200 * 1.01 * likeness(shots).spread ** 1.5)
    assert photos_per_text(shots).expected > 4 * photos_per_text(apart).expected


def test_a_text_counts_as_some_photos_though_nothing_speaks_for_it():
    shots = FewShot(on_a_circle(0, 60), torch.arange(2), on_a_circle(60, 0).T, 10.0)
    assert photos_per_text(shots) == (0.15, 0)


def test_texts_of_uneven_classes_count_as_more():
    """One photo and three: means 4/3 as noisy, and the square of it."""
    shots = FewShot(on_a_circle(0, 60, 60.1, 60.2), torch.tensor([0, 1, 1, 1]), on_a_circle(0, 60).T, 10.0)
    assert photos_per_text(shots).expected == pytest.approx(200 * 1.01 * USUAL**1.5 * (4 / 3) ** 2, rel=1e-3)


@pytest.mark.parametrize("cone", [0.5, 2.0])
def test_a_cone_changes_nothing(cone):
    shots = few_shots(counts=(2, 5, 3))
    assert photos_per_text(in_cone(shots, cone=cone)) == pytest.approx(photos_per_text(shots))


def test_left_out_photos_do_not_move_it_below_the_least():
    """Three photos of each class that differ in two ways: two thirds of 120 times the cube of the spread."""
    shots = FewShot(
        on_a_circle(0, 4, 8, 60, 64, 68, 170, 174, 178), torch.arange(9) // 3, on_a_circle(9, 50, 90).T, 9.0
    )
    least = photos_per_text(shots).least
    assert least == pytest.approx(120 * likeness(shots).spread ** 3 * 2 / 3)
    assert least > 0.3, "so it leaves out a setting"
    assert choose(shots, kind="ridge").setting["penalty"] >= least


def test_the_setting_closest_to_the_texts_remains(monkeypatch):
    monkeypatch.setattr(choosing, "photos_per_text", lambda shots: PhotosPerText(2000.0, 1000.0))
    assert choose(few_shots(), kind="ridge").setting == {"penalty": 30.0}
    assert choose(few_shots(), kind="prototypes").setting == {"weight": 1 / 32}
