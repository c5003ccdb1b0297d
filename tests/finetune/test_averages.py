"""How much of the average is new after each iteration."""

from __future__ import annotations

import math

import pytest

from wsoup.finetune.averages import gaussian_shares, steady_share


def weights_of(shares: list[float]) -> list[float]:
    """The weight of each iteration's value in the last average."""
    weights = []
    for i, share in enumerate(shares):
        weights.append(share * math.prod(1 - later for later in shares[i + 1 :]))
    return weights


def test_the_steady_share_is_what_ema_does_not_keep():
    assert [steady_share(ema=0.75)(i) for i in (0, 7)] == [0.25, 0.25]


def test_gaussian_weights_by_hand():
    """Three parts around the second, of two iterations each: exp(-1/2), 1, exp(-1/2) over their sum, 2.2131."""
    share = gaussian_shares(parts=3, mean=2, deviation=1, iterations=6)
    weights = weights_of([share(i) for i in range(6)])
    assert weights == pytest.approx([0, 0.27407, 0, 0.45186, 0, 0.27407], abs=1e-5)


@pytest.mark.parametrize(("parts", "mean", "deviation"), [(20, 6, 10), (20, 15, 1), (50, 45, 5)])
def test_gaussian_weights_are_those_of_the_authors_epochs(parts, mean, deviation):
    """PromptSRC's three settings: the density at each epoch, over their sum."""
    share = gaussian_shares(parts=parts, mean=mean, deviation=deviation, iterations=parts)
    density = [math.exp(-0.5 * ((epoch - mean) / deviation) ** 2) for epoch in range(1, parts + 1)]
    expected = [value / sum(density) for value in density]
    assert weights_of([share(i) for i in range(parts)]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("parts", "mean", "iterations"), [(4, 900, 4), (7, 3, 3), (1, 0, 5), (3, 2, 10)])
def test_gaussian_weights_sum_to_one_far_from_the_mean_and_with_more_parts_than_iterations(parts, mean, iterations):
    share = gaussian_shares(parts=parts, mean=mean, deviation=1, iterations=iterations)
    shares = [share(i) for i in range(iterations)]
    assert all(0 <= value <= 1 for value in shares)
    assert sum(weights_of(shares)) == pytest.approx(1)
    assert shares[-1] > 0
