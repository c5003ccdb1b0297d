"""Verdicts in words: each sentence says what its own numbers say."""

from __future__ import annotations

import re

import numpy as np
import pytest

from wsoup.statistics.noise import Verdict, compare_images, judge
from wsoup.statistics.words import ahead, get_or_gets, in_short, in_words, interval, is_near, signed, worded

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
        (WORSE, "The 80 templates are better than the soup by 2.8 points [0.01, 5.6], just more than noise."),
        (NOISE, "The soup is ahead of the 80 templates by 3.6 points [-0.4, 7.5], which may be noise."),
        (BEHIND, "The 80 templates are ahead of the soup by 2.7 points [-0.004, 5.5], just within noise."),
        (EQUAL, "The soup and the 80 templates are equal: 0.0 points [-0.5, +0.5]."),
        (LAST_BITS, "The soup and the 80 templates are equal: 0.0 points [-0.5, +0.5]."),
    ],
)
def test_who_wins_is_said_first(gain, sentence):
    assert ahead("the soup", "the 80 templates", gain) == sentence


def test_a_row_whose_name_is_a_plural_has_the_verb_of_one():
    said = ahead("the class means", "the soup of 64 random words", BETTER)
    assert said.startswith("The class means are better than the soup of 64 random words by 4.3 points ")
    assert ahead("the soup of 64 random words", "the class means", BETTER).startswith("The soup of 64 random words is ")
    assert [get_or_gets(row) for row in ("80 templates", "class means", "word soup")] == ["get", "get", "gets"]


@pytest.mark.parametrize(
    ("gain", "long", "short"),
    [
        (BETTER, "+4.3 points [+2.4, +6.3], more than noise", "+4.3 [+2.4, +6.3], better"),
        (WORSE, "-2.8 points [-5.6, -0.01], worse by just more than noise", "-2.8 [-5.6, -0.01], just worse"),
        (NOISE, "+3.6 points [-0.4, +7.5], which may be noise", "+3.6 [-0.4, +7.5], no sure difference"),
        (BEHIND, "-2.7 points [-5.5, +0.004], just within noise", "-2.7 [-5.5, +0.004], just within noise"),
        (EQUAL, "0.0 points [-0.5, +0.5], no difference", "0.0, no difference"),
    ],
)
def test_a_gain_is_said_in_words_that_its_numbers_bear_out(gain, long, short):
    assert in_words(gain) == long
    assert in_short(gain) == short


BORDER = [
    # mean, ends; half is 2 in each: near are ends closer to zero than 0.2
    (2.21, 0.21, 4.21, "better", "better"),
    (2.19, 0.19, 4.19, "better", "better (just)"),
    (1.81, -0.19, 3.81, "noise", "noise (just)"),
    (1.79, -0.21, 3.79, "noise", "noise"),
    (-1.79, -3.79, 0.21, "noise", "noise"),
    (-1.81, -3.81, 0.19, "noise", "noise (just)"),
    (-2.19, -4.19, -0.19, "worse", "worse (just)"),
    (-2.21, -4.21, -0.21, "worse", "worse"),
    (0.0, -2.0, 2.0, "noise", "equal"),
    (0.0, 0.0, 0.0, "noise", "equal"),
    (100.0, 100.0, 100.0, "better", "better"),
]


@pytest.mark.parametrize(("mean", "low", "high", "word", "said"), BORDER)
def test_a_verdict_near_its_border_says_so_everywhere(mean, low, high, word, said):
    gain = Verdict(mean, low, high, p=0.05, level=0.05, word=word)
    assert worded(gain) == said
    is_just = said.endswith("(just)")
    assert is_near(gain) is is_just
    for text in (ahead("the soup", "the class name", gain), in_words(gain), in_short(gain)):
        assert ("just" in text) is is_just
        assert ("just within noise" in text) is (said == "noise (just)")


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
