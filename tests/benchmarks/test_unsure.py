"""Facts about `benchmarks/unsure`: each rule by hand."""

from __future__ import annotations

import pytest
import torch

from benchmarks.unsure import answered, by_margin, by_neighbours, by_probability

FEATURES = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
SCORES = torch.tensor([[0.9, 0.1, 0.0], [0.6, 0.45, 0.2], [0.05, 0.8, 0.45]])


def test_the_surest_are_answered_while_their_mean_is_what_was_promised():
    """0.9 and 0.8 have a mean of 0.85; with 0.4 it would be 0.7."""
    assert answered(torch.tensor([0.4, 0.9, 0.8]), promised=0.85).tolist() == [1, 2]
    assert answered(torch.tensor([0.4]), promised=0.5).tolist() == []


def test_probabilities_are_those_of_the_scale():
    expected = 1 / (1 + 2 * torch.tensor(-2.0).exp())
    assert by_probability(FEATURES, torch.tensor([[1.0, 0.0, 0.0]]), 2.0) == pytest.approx(float(expected))


def test_neighbours_have_the_same_answer_or_not():
    """Answers 0, 0, 1; each has the two others as neighbours."""
    assert by_neighbours(FEATURES, SCORES, 1.0).tolist() == [0.5, 0.5, 0.0]


def test_margins_against_those_of_wrong_classes_by_hand():
    """Margins 0.8, 0.15, 0.35; wrong classes lead by 0.1, 0.25, 0.4. Two thirds of the neighbours disagree.

    No wrong class leads by 0.8; two of three by 0.15, as all answers do; one by 0.35, as two answers do.
    """
    expected = [1, 1 - 2 / 3 * (2 / 3) / 1, 1 - 2 / 3 * (1 / 3) / (2 / 3)]
    assert by_margin(FEATURES, SCORES, 1.0).tolist() == pytest.approx(expected)
