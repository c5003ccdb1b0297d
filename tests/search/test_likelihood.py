"""The likelihood of labels at a logit scale, first by hand."""

from __future__ import annotations

import math

import pytest
import torch

from wsoup.core.class_texts import normalize
from wsoup.core.scoring import AtOnce
from wsoup.search.rank.likelihood import SCALES, likeliest_scale, log_likelihoods

AXES = torch.eye(2)


def test_likelihoods_by_hand():
    """An image on the first text, at scale log 3: odds 3 to 1, so its own label has 3/4 and the other 1/4."""
    both = log_likelihoods(AXES[[0, 0]], torch.tensor([0, 1]), AXES[None], scale=math.log(3))
    assert both.shape == (1, 2)
    assert both[0].exp().tolist() == pytest.approx([0.75, 0.25])


def test_the_likeliest_scale_by_hand():
    """Three of four images are right, each by a cosine of 0.2. Odds of 3 to 1 need a scale of log 3 / 0.2 = 5.49, which
    lies between 5 (mean -0.5633) and 5.75 (-0.5626)."""
    image = torch.tensor([[0.8, 0.6]]).expand(4, 2)
    assert likeliest_scale(image, torch.tensor([0, 0, 0, 1]), AXES) == pytest.approx(5.75)


def test_class_names_that_know_nothing_have_the_smallest_scale_and_perfect_ones_the_largest():
    y = torch.tensor([0, 1])
    assert likeliest_scale(AXES, y.flip(0), AXES) == SCALES[0] == 5
    near = normalize(torch.tensor([[0.72, 0.69], [0.69, 0.72]]))
    assert likeliest_scale(near, y, AXES) == SCALES[-1] == pytest.approx(164.6, abs=0.1)


@pytest.mark.parametrize("at_once", [None, AtOnce(texts=1, softmax=1), AtOnce(texts=12, softmax=50)])
def test_likelihoods_equal_the_plain_loop_in_blocks_of_any_size(at_once):
    generator = torch.Generator().manual_seed(0)
    texts = normalize(torch.randn(9, 4, 6, generator=generator))
    x, y = normalize(torch.randn(11, 6, generator=generator)), torch.arange(11) % 4
    of_label = log_likelihoods(x, y, texts, scale=20.0, at_once=at_once)
    for p in range(9):
        for n in range(11):
            odds = [math.exp(20 * float(x[n].double() @ text.double())) for text in texts[p]]
            assert float(of_label[p, n]) == pytest.approx(math.log(odds[int(y[n])] / sum(odds)), abs=1e-5)


def test_one_class_is_certain_and_no_images_or_texts_are_no_error():
    assert log_likelihoods(AXES, torch.zeros(2, dtype=torch.int64), AXES[None, :1], scale=9.0).tolist() == [[0, 0]]
    none = torch.empty(0, dtype=torch.int64)
    assert log_likelihoods(AXES[:0], none, AXES[None], scale=9.0).shape == (1, 0)
    assert log_likelihoods(AXES, torch.tensor([0, 1]), torch.empty(0, 2, 2), scale=9.0).shape == (0, 2)
