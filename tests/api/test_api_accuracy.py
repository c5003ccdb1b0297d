"""Facts about counts and what a classifier gains, with a hand-computed answer first."""

from __future__ import annotations

import pytest
import torch

import wsoup
from wsoup.api.accuracy import paired_gain
from wsoup.core.errors import DataError, MismatchError, ParamsError

UP, RIGHT = [0.0, 1.0], [1.0, 0.0]
RIGHT_ANSWERS = torch.tensor([UP, RIGHT]).T  # label 0 is up, label 1 is right


def test_accuracy_is_a_count():
    found = wsoup.zero_shot_accuracy(torch.tensor([UP, RIGHT, UP, UP]), [0, 1, 0, 1], classifier=RIGHT_ANSWERS)
    assert (found.n_correct, found.n_images, found.percent, found.gain) == (3, 4, 75.0, None)
    assert str(found) == "75.00 % (3 of 4)"
    named = ["up", "right", "up", "right"]
    again = wsoup.zero_shot_accuracy(
        torch.tensor([UP, RIGHT, UP, UP]), named, classifier=RIGHT_ANSWERS, class_names=["up", "right"]
    )
    assert again == found


def test_the_gain_counts_images_that_changed():
    features, labels = torch.tensor([UP, RIGHT, UP, UP]), [0, 1, 0, 1]
    found = wsoup.zero_shot_accuracy(features, labels, classifier=RIGHT_ANSWERS, baseline=RIGHT_ANSWERS.flip(1))
    assert (found.gain.n_gained, found.gain.n_lost, found.gain.points) == (3, 1, 50.0)
    assert "which may be noise" in str(found)


def test_the_interval_is_agresti_and_mins():
    """n = 100, 20 gained, 10 lost: (10 / 102) ± 1.959964 sqrt(31 - 100 / 102) / 102."""
    gain = paired_gain(20, 10, n=100, confidence=0.95)
    assert gain.points == 10.0
    assert (gain.low, gain.high) == pytest.approx((-0.7242, 20.3320), abs=1e-3)


def test_the_interval_covers_what_it_says():
    generator = torch.Generator().manual_seed(0)
    draws = torch.multinomial(torch.tensor([0.3, 0.2, 0.5]), 2000 * 80, replacement=True, generator=generator)
    inside = 0
    for sample in draws.view(2000, 80):
        gain = paired_gain(int((sample == 0).sum()), int((sample == 1).sum()), n=80, confidence=0.9)
        inside += gain.low <= 10.0 <= gain.high
    assert 0.88 <= inside / 2000 <= 0.93


def test_nothing_changed_is_no_gain():
    gain = paired_gain(0, 0, n=50, confidence=0.95)
    assert gain.points == 0
    assert gain.low < 0 < gain.high


def test_what_does_not_fit_is_said():
    features, labels = torch.eye(2), [0, 1]
    with pytest.raises(MismatchError, match=r"classifier has shape \(3, 2\); expected \(2, C\), features by classes"):
        wsoup.zero_shot_accuracy(features, labels, classifier=torch.zeros(3, 2))
    with pytest.raises(DataError, match="classifier holds NaN"):
        wsoup.zero_shot_accuracy(features, labels, classifier=torch.full((2, 2), float("nan")))
    with pytest.raises(DataError, match=r"labels\[1\] is 5"):
        wsoup.zero_shot_accuracy(features, [0, 5], classifier=torch.eye(2))
    with pytest.raises(MismatchError, match="classifier is of 2 classes, class_names has 1"):
        wsoup.zero_shot_accuracy(features, labels, classifier=torch.eye(2), class_names=["a"])
    with pytest.raises(ParamsError, match="confidence is 95"):
        wsoup.zero_shot_accuracy(features, labels, classifier=torch.eye(2), confidence=95)
