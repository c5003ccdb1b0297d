"""Accuracy as a count, and the gain over a baseline; a hand-computed answer first."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import wsoup
from wsoup.api.accuracy import Gain
from wsoup.base.errors import DataError, MismatchError, ParamsError

UP, RIGHT = [0.0, 1.0], [1.0, 0.0]
RIGHT_ANSWERS = torch.tensor([UP, RIGHT]).T  # label 0 is up, label 1 is right


def test_accuracy_is_a_count():
    accuracy = wsoup.zero_shot_accuracy(torch.tensor([UP, RIGHT, UP, UP]), [0, 1, 0, 1], classifier=RIGHT_ANSWERS)
    assert (accuracy.n_correct, accuracy.n_images, accuracy.percent, accuracy.gain) == (3, 4, 75.0, None)
    assert str(accuracy) == "75.00 % (3 of 4)"
    named = ["up", "right", "up", "right"]
    again = wsoup.zero_shot_accuracy(
        torch.tensor([UP, RIGHT, UP, UP]), named, classifier=RIGHT_ANSWERS, class_names=["up", "right"]
    )
    assert again == accuracy


def test_score_means_are_counted_without_normalisation():
    """Of (0.6, 0.8): 0.64 up, 0.72 right with a mean text of length 1.2; normalised it would be up."""
    longer = torch.tensor([[0.0, 0.8], [1.2, 0.0]]).T
    features = torch.tensor([[0.6, 0.8]])
    assert wsoup.zero_shot_accuracy(features, [1], classifier=longer).n_correct == 1
    assert wsoup.zero_shot_accuracy(features, [1], classifier=RIGHT_ANSWERS).n_correct == 0


@pytest.mark.parametrize(("low", "high", "is_noise"), [(0.0, 2.0, True), (-2.0, 0.0, True), (0.01, 2.0, False)])
def test_a_gain_whose_interval_reaches_zero_may_be_noise(low, high, is_noise):
    gain = Gain(n_gained=1, n_lost=0, points=(low + high) / 2, low=low, high=high, confidence=0.95)
    assert ("which may be noise" in str(gain)) is is_noise


def test_the_same_answers_are_no_gain_and_no_doubt():
    right = np.array([True, False, True])
    said = str(Gain.of(right, right, confidence=0.95))
    assert said.endswith(", no difference (0 images gained, 0 lost)")
    assert "noise" not in said


def test_the_gain_counts_images_that_changed():
    features, labels = torch.tensor([UP, RIGHT, UP, UP]), [0, 1, 0, 1]
    accuracy = wsoup.zero_shot_accuracy(features, labels, classifier=RIGHT_ANSWERS, baseline=RIGHT_ANSWERS.flip(1))
    assert (accuracy.gain.n_gained, accuracy.gain.n_lost, accuracy.gain.points) == (3, 1, 50.0)
    assert "which may be noise" in str(accuracy)


def test_the_level_that_is_asked_for_is_the_intervals():
    features, labels = torch.tensor([UP, RIGHT, UP, UP]), [0, 1, 0, 1]
    of_level = {}
    for level in (0.8, 0.95):
        asked = {"classifier": RIGHT_ANSWERS, "baseline": RIGHT_ANSWERS.flip(1), "confidence": level}
        of_level[level] = wsoup.zero_shot_accuracy(features, labels, **asked).gain
    assert [gain.confidence for gain in of_level.values()] == [0.8, 0.95]
    assert of_level[0.95].low < of_level[0.8].low < 50


def gain_of(n_gained: int, n_lost: int, *, n: int, confidence: float) -> Gain:
    right, baseline_right = np.zeros((2, n), dtype=bool)
    right[:n_gained], baseline_right[n_gained : n_gained + n_lost] = True, True
    return Gain.of(right, baseline_right, confidence=confidence)


def test_the_interval_is_that_of_all_comparisons():
    """n = 100, 20 gained, 10 lost: 10 ± 1.9837 * 100 sqrt((31 - 100 / 102) / 101 / 102), t with 101 degrees."""
    gain = gain_of(20, 10, n=100, confidence=0.95)
    assert (gain.n_gained, gain.n_lost, gain.points) == (20, 10, 10.0)
    assert (gain.low, gain.high) == pytest.approx((-0.7084, 20.7084), abs=1e-3)


def test_an_interval_stays_within_100_points():
    assert gain_of(3, 0, n=3, confidence=0.95).high == 100.0


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        (
            {"classifier": torch.zeros(3, 2)},
            MismatchError,
            r"shape \(3, 2\); expected \(2, C\), features by",
        ),
        (
            {"classifier": torch.full((2, 2), torch.nan)},
            DataError,
            "has NaN or infinity in rows 0, 1; make it again",
        ),
        ({"classifier": torch.diag(torch.tensor([1.0, 0]))}, DataError, "holds nothing but zeros in rows 1; make it"),
        ({"class_names": ["a"]}, MismatchError, "classifier has 2 classes, class_names has 1"),
        ({"confidence": 95}, ParamsError, "confidence is 95"),
        ({"labels": ["a", "b"]}, DataError, "nothing says which of the 2 columns of classifier is which class; give"),
        ({"labels": None}, DataError, "labels is None; expected one for each image"),
        ({"features": ["a.jpg", "b.jpg"]}, DataError, r"it holds text: \['a.jpg', 'b.jpg'\]"),
        ({"classifier": "paper:word"}, DataError, "classifier is 'paper:word'; expected class weights"),
        ({"baseline": torch.eye(2, 3) + 1}, MismatchError, "classifier has 2 classes and baseline 3"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(changed, error, text):
    with pytest.raises(error, match=text):
        wsoup.zero_shot_accuracy(**{"features": torch.eye(2), "labels": [0, 1], "classifier": torch.eye(2), **changed})
