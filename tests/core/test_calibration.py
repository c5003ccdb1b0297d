"""Calibration error and likelihood: by hand, against a plain loop, and however images are cut into blocks."""

from __future__ import annotations

import math

import pytest
import torch

from wsoup.core.calibration import BINS, Calibration, Probabilities, probabilities
from wsoup.core.scoring import Scores


def of_confidences(confidences: list[float], right: list[bool]) -> Calibration:
    made = Calibration(1, device=torch.device("cpu"))
    confidence = torch.tensor([confidences], dtype=torch.float64)
    made.add(Probabilities(confidence, confidence.log()), right=torch.tensor([right]))
    return made


def test_the_error_by_hand():
    """0.90 and 0.92 are one bin of 15, right once of 2: |0.5 - 0.91|. 0.30 is another, wrong: 0.30. Mean: 1.12 / 3."""
    made = of_confidences([0.90, 0.92, 0.30], [True, False, False])
    assert made.errors(3) == [pytest.approx((2 * 0.41 + 0.30) / 3)]


def test_a_border_belongs_to_the_lower_bin_and_one_to_the_highest():
    made = of_confidences([1 / BINS, 1.0, 0.001], [True, True, True])
    assert made.sure[0].nonzero().flatten().tolist() == [0, BINS - 1]


def test_probabilities_by_hand():
    """Scores 0.5 and 0.2 at scale 10: logits 3 apart."""
    made = probabilities(torch.tensor([[[0.5, 0.2]]]), torch.tensor([1]), torch.tensor([[0]]), logit_scale=10.0)
    assert float(made.confidence) == pytest.approx(1 / (1 + math.exp(-3)))
    assert float(made.log_p) == pytest.approx(-3 - math.log1p(math.exp(-3)))


def test_a_class_that_is_never_predicted_has_a_finite_likelihood():
    made = probabilities(torch.tensor([[[1.0, -1.0]]]), torch.tensor([1]), torch.tensor([[0]]), logit_scale=1000.0)
    assert float(made.log_p) == -2000.0


def test_sums_are_those_of_a_plain_loop_in_blocks_of_any_size():
    draw = torch.Generator().manual_seed(0)
    images = torch.nn.functional.normalize(torch.randn(50, 8, generator=draw), dim=1)
    texts = torch.nn.functional.normalize(torch.randn(3, 4, 8, generator=draw), dim=2)
    labels = torch.randint(4, (50,), generator=draw)
    made = Calibration(3, device=torch.device("cpu"))
    for start in (0, 7, 30):
        block = slice(start, {0: 7, 7: 30, 30: 50}[start])
        for first in (0, 2):
            scores = Scores(images[block], texts[first : first + 2])
            predicted, sure = scores.answers(labels[block], logit_scale=5.0)
            assert torch.equal(predicted, scores.predicted())
            made.add(sure, right=predicted == labels[block], first=first)
    for r, classifier in enumerate(texts):
        p = (5.0 * images @ classifier.T).softmax(dim=1)
        confidence, predicted = p.max(dim=1)
        error = 0.0
        for k in range(BINS):
            inside = (confidence > k / BINS) & (confidence <= (k + 1) / BINS)
            right = predicted[inside] == labels[inside]
            error += abs(float(right.sum()) - float(confidence[inside].sum())) / 50
        assert made.errors(50)[r] == pytest.approx(error, abs=1e-6)
        expected = float(p.gather(1, labels[:, None]).log().mean())
        assert made.log_likelihoods(50)[r] == pytest.approx(expected, abs=1e-6)
