"""Kinds of soup other than Algorithms 1 and 2, each against a loop written from its definition."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from wsoup.base.errors import PoolError
from wsoup.core.member import NOTHING
from wsoup.search.grow.sample import SampleSoup, drawn, drawn_from
from wsoup.search.grow.top import TopSoup
from wsoup.search.rank.ranking import Ranked

WORDS = [f"w{i}" for i in range(40)]


# --------------------------------------------------------------------------------------------------- single texts


def ranked(texts, n_correct, k2) -> Ranked:
    return Ranked(texts, n_correct, k2, period=False, cost=NOTHING)


def top(of: Ranked, *, m: int, rank_by: str) -> list[str]:
    definition = TopSoup(kind="top", pool="words", m=m, k1=len(of.texts), rank_by=rank_by)
    return [member.text for member in definition.members(of, None, part=0)]


def test_top_by_hand():
    """Counts 12, 11, 10 and likelihoods -3, -1, -2: their z scores add up to 0, 1.2 and -1.2."""
    three = ranked(["a", "b", "c"], np.array([12, 11, 10]), np.array([-3.0, -1.0, -2.0]))
    assert top(three, m=3, rank_by="count_k2") == ["b", "a", "c"]
    assert top(three, m=2, rank_by="count") == ["a", "b"]
    assert top(three.cut(2), m=1, rank_by="count_k2") == ["a"], "equal sums keep the order of the ranking"


def test_equal_candidates_keep_their_order():
    """All of them, and one better than the others: sorting that is not stable would mix forty equal ones."""
    equal, best = np.full(40, 7), np.where(np.arange(40) == 30, 8, 7)
    assert top(ranked(WORDS, equal, np.full(40, -1.0)), m=4, rank_by="count_k2") == WORDS[:4]
    assert top(ranked(WORDS, best, np.full(40, -1.0)), m=40, rank_by="count_k2") == ["w30", *WORDS[:30], *WORDS[31:]]


def test_a_sample_has_distinct_texts_and_a_longer_one_starts_with_it():
    short, long = (drawn(40, m=m, seed=1) for m in (8, 16))
    assert long[:8] == short
    assert len(set(long)) == 16
    assert short != drawn(40, m=8, seed=2)
    many = [i for seed in range(400) for i in drawn(4, m=2, seed=seed)]
    assert all(150 < many.count(i) < 250 for i in range(4)), "each as likely as any other"


def test_a_sample_is_that_of_its_seed_and_may_be_the_whole_pool():
    definition = SampleSoup(kind="sample", pool="words", m=3, k1=40)
    for seed in (0, 1, 2):
        members = definition.members(ranked(WORDS, np.arange(40), np.zeros(40)), SimpleNamespace(seed=seed), part=0)
        assert [member.text for member in members] == [WORDS[i] for i in drawn(40, m=3, seed=seed)]
    assert sorted(drawn(3, m=3, seed=1)) == [0, 1, 2]
    with pytest.raises(PoolError, match="cannot sample 9 of 8 texts"):
        drawn(8, m=9, seed=1)


def test_a_sample_of_the_whole_pool_is_the_same_however_the_pool_is_ranked():
    definition = SampleSoup(kind="sample", pool="words", m=5, k1=None)
    expected = [WORDS[i] for i in drawn_from(WORDS, m=5, seed=3)]
    for order in (WORDS, WORDS[::-1], sorted(WORDS)):
        members = definition.members(ranked(order, np.arange(40), np.zeros(40)), SimpleNamespace(seed=3), part=0)
        assert [member.text for member in members] == expected
