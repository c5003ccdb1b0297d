"""Verdicts in words: each sentence says what its own numbers say."""

from __future__ import annotations

import re

import numpy as np
import pytest

from wsoup.statistics.noise import Verdict, compare_images, judge
from wsoup.statistics.words import ahead, in_short, in_words, interval, signed

BETTER = Verdict(4.34, 2.39, 6.29, p=0.001, level=0.05, word="better")
WORSE = Verdict(-2.8, -5.6, -0.01, p=0.049, level=0.05, word="worse")
NOISE = Verdict(3.57, -0.4, 7.54, p=0.08, level=0.05, word="noise")
BEHIND = Verdict(-2.68, -5.47, 0.004, p=0.0502, level=0.05, word="noise")
EQUAL = Verdict(0.0, -0.5, 0.5, p=1.0, level=0.05, word="noise")
LAST_BITS = Verdict(-1e-15, -0.5, 0.5, p=1.0, level=0.05, word="noise")


@pytest.mark.parametrize(
    ("gain", "sentence"),
    [
        (BETTER, "The soup is better than the 80 templates by 4.3 points [2.4, 6.3]."),
        (WORSE, "The 80 templates are better than the soup by 2.8 points [0.01, 5.6]."),
        (NOISE, "The soup is ahead of the 80 templates by 3.6 points [-0.4, 7.5], which may be noise."),
        (BEHIND, "The 80 templates are ahead of the soup by 2.7 points [-0.004, 5.5], which may be noise."),
        (EQUAL, "The soup and the 80 templates are equal: 0.0 points [-0.5, +0.5]."),
        (LAST_BITS, "The soup and the 80 templates are equal: 0.0 points [-0.5, +0.5]."),
    ],
)
def test_who_wins_is_said_first(gain, sentence):
    assert ahead("the soup", "the 80 templates", gain) == sentence


@pytest.mark.parametrize(
    ("gain", "long", "short"),
    [
        (BETTER, "+4.3 points [+2.4, +6.3], more than noise", "+4.3 [+2.4, +6.3], better"),
        (WORSE, "-2.8 points [-5.6, -0.01], worse by more than noise", "-2.8 [-5.6, -0.01], worse"),
        (NOISE, "+3.6 points [-0.4, +7.5], which may be noise", "+3.6, no sure difference"),
        (BEHIND, "-2.7 points [-5.5, +0.004], which may be noise", "-2.7, no sure difference"),
        (EQUAL, "0.0 points [-0.5, +0.5], no difference", "0.0, no difference"),
    ],
)
def test_a_gain_is_said_in_words_that_its_numbers_bear_out(gain, long, short):
    assert in_words(gain) == long
    assert in_short(gain) == short


def test_no_end_is_rounded_onto_zero_or_over_it():
    assert [signed(value) for value in (0.05, 0.04, -0.04, 0.0049, -1e-5, 0.0, -0.0)] == [
        "+0.1",
        "+0.04",
        "-0.04",
        "+0.005",
        "-0.0001",
        "0.0",
        "0.0",
    ]


@pytest.mark.parametrize("n_images", [1, 2, 40, 2000])
def test_printed_intervals_exclude_zero_exactly_where_the_verdict_is_sure(n_images):
    """One image, too: between a row that is right on it and one that is not, nothing is sure."""
    generator = np.random.default_rng(n_images)
    seen = set()
    for _ in range(300):
        share = generator.random()
        first = {"photos": generator.random((2, n_images)) < 0.5 + 0.2 * share}
        second = {"photos": generator.random((2, n_images)) < 0.5}
        (gain,) = judge([compare_images(first, second).fixed], confidence=0.95)
        low, high = (float(end) for end in re.findall(r"[+-]?\d[\d.]*", interval(gain)))
        assert (low <= 0 <= high) is not gain.sure
        seen.add(gain.word)
        told = ahead("the first", "the second", gain)
        assert ("better" in told) is gain.sure
        assert told.startswith("The second is") is (gain.mean < 0)
    if n_images == 1:
        assert seen == {"noise"}
