"""Algorithms 1 and 2, on a circle where the right answers are known without weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wsoup.base.errors import PoolError
from wsoup.core.draws import member_generator, named_generator
from wsoup.core.scoring import centroids, count_correct, normalize
from wsoup.search.grow.chains import counted_alone, draw_chain_words, grow_chain
from wsoup.search.grow.greedy import greedy_soup, right_on
from wsoup.search.grow.params import ChainsSoup
from wsoup.search.rank.ranking import rank
from wsoup.soup.member import Member


def blocks_of(features: torch.Tensor, pool: Sequence[str], size: int):
    """An encoder: the features of the given texts in blocks."""

    def encode(texts: Sequence[str]) -> Iterator[torch.Tensor]:
        rows = torch.stack([features[pool.index(text)] for text in texts])
        return iter(rows.split(size))

    return encode


def one_by_one_descriptor_soup(ranked, features, pool, images, labels, m):
    """Algorithm 1 as the paper writes it: re-average the whole list at every step."""
    members = [ranked[0]]
    bar = count_correct(images, labels, centroids(torch.stack([features[pool.index(d)] for d in members])))
    for candidate in ranked[1:]:
        tried = torch.stack([features[pool.index(d)] for d in [*members, candidate]])
        count = count_correct(images, labels, centroids(tried))
        if count > bar:
            members, bar = [*members, candidate], count
    return members[:m]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("block", [1, 7, 100])
def test_descriptor_soup_equals_the_plain_loop(seed, block):
    generator = torch.Generator().manual_seed(seed)
    features = normalize(torch.randn(40, 6, 5, generator=generator))
    images, labels = normalize(torch.randn(90, 5, generator=generator)), torch.arange(90) % 6
    pool = [f"which is {i}" for i in range(40)]
    ranked = [pool[i] for i in rank([count_correct(images, labels, t) for t in features])]
    members = greedy_soup(ranked, features=blocks_of(features, pool, block), measure=right_on(images, labels), m=4)
    assert [m.text for m in members] == one_by_one_descriptor_soup(ranked, features, pool, images, labels, 4)
    assert len(members) > 1, "the seed should give a soup that grows"


def test_rank_breaks_ties_by_pool_order():
    assert rank([2, 7, 7, 7, 1]).tolist() == [1, 2, 3, 0, 4]
    assert rank([]).tolist() == []


def test_descriptor_soup_by_hand():
    """Class 0 at 0 degrees, class 1 at 100. The best text is off by +40; one that is off by -40 centres the mean."""

    def text(lean: float) -> torch.Tensor:
        angles = torch.tensor([0.0 + lean, 100.0 + lean]) * math.pi / 180
        return torch.stack([angles.cos(), angles.sin()], dim=-1)

    images = torch.stack([torch.tensor([math.cos(a), math.sin(a)]) for a in np.radians([0, 40, 100, 60])])
    labels = torch.tensor([0, 0, 1, 1])
    pool, features = ["left", "right", "wild"], torch.stack([text(40), text(-40), text(170)])
    members = greedy_soup(pool, features=blocks_of(features, pool, 3), measure=right_on(images, labels), m=3)
    assert [(m.text, m.n_correct) for m in members] == [("left", 3), ("right", 4)]


def test_a_longer_soup_starts_with_a_shorter_one():
    generator = torch.Generator().manual_seed(3)
    features = normalize(torch.randn(60, 6, 5, generator=generator))
    images, labels = normalize(torch.randn(90, 5, generator=generator)), torch.arange(90) % 6
    pool = [str(i) for i in range(60)]
    encode = blocks_of(features, pool, 16)
    short, long = (greedy_soup(pool, features=encode, measure=right_on(images, labels), m=m) for m in (2, 4))
    assert long[:2] == short


def test_an_empty_pool_is_an_error():
    with pytest.raises(PoolError, match="the pool is empty"):
        greedy_soup([], features=lambda _: iter(()), measure=right_on(torch.empty(0, 2), torch.empty(0)), m=1)


def one_by_one_chain(first, candidates, count, max_words):
    """Algorithm 2's inner loop, one candidate at a time."""
    words, bar = [first], count([first])[0]
    for word in candidates:
        if len(words) == max_words:
            break
        n_correct = count([" ".join([*words, word])])[0]
        if n_correct > bar:
            words, bar = [*words, word], n_correct
    return " ".join(words), bar


def noisy_count(texts: Sequence[str]) -> np.ndarray:
    """A count that depends on the whole text in no simple way, but is the same in every process."""
    return np.array([sum(map(ord, text)) * 7919 % 83 + 9 * len(text.split()) for text in texts])


def chain_of(first: str, candidates: Sequence[str], count, *, max_words: int = 10, **options: Any) -> Member:
    return grow_chain((first, candidates), judge=counted_alone(count), max_words=max_words, **options)[0]


@settings(deadline=None, max_examples=60)
@given(
    words=st.lists(st.text("abcdefgh", min_size=1, max_size=6), min_size=1, max_size=90),
    max_words=st.integers(1, 6),
)
def test_speculative_batches_equal_the_plain_loop(words, max_words):
    member = chain_of("start", words, noisy_count, max_words=max_words)
    assert (member.text, member.n_correct) == one_by_one_chain("start", words, noisy_count, max_words)
    assert [step.added for step in member.trace] == member.text.split()


def test_a_word_is_added_only_if_the_count_rises_strictly():
    counts = {"a": 5, "a b": 5, "a c": 6, "a c b": 6, "a c d": 7}
    member = chain_of("a", ["b", "c", "b", "d"], lambda ts: [counts.get(t, 0) for t in ts])
    assert member.text == "a c d"
    assert [step.n_correct for step in member.trace] == [5, 6, 7]


def test_the_bar_rises_with_each_accepted_word():
    """If it did not (the slip in the paper's pseudo-code), 'worse', at 6 against 5, would be accepted, too."""
    counts = {"a": 5, "a best": 9, "a worse": 6, "a best worse": 6}
    member = chain_of("a", ["best", "worse"], lambda ts: [counts.get(t, 0) for t in ts])
    assert member.text == "a best"


def test_without_candidates_the_chain_is_its_first_word():
    assert chain_of("a", [], lambda ts: [3]).text == "a"


GROWTH = ChainsSoup(kind="chains", pool="words", m=4, k0=5, k1=20, patience=12, max_words=4)


def test_first_words_come_from_the_top_k0_and_further_ones_from_the_top_k1():
    """All of them, over many members: one less of either would be missed by no chain's own test."""
    words = [f"w{i}" for i in range(50)]
    draws = [draw_chain_words(words, GROWTH, member=member, seed=1) for member in range(60)]
    assert {first for first, _ in draws} == set(words[:5])
    assert all(len(set(candidates)) == len(candidates) == 12 for _, candidates in draws)
    assert {word for _, candidates in draws for word in candidates} == set(words[:20])


def test_a_named_draw_is_pinned():
    """Soups of other versions are found again only if the draws of (purpose, seed, member) stay the same."""
    assert member_generator(purpose="word_soup", seed=1, member=0).permutation(6).tolist() == [3, 0, 5, 1, 4, 2]
    assert named_generator(1, "classes", 2).permutation(6).tolist() == [0, 1, 3, 4, 2, 5]
    words = [f"w{i}" for i in range(50)]
    first, candidates = draw_chain_words(words, GROWTH, member=1, seed=1)
    assert (first, candidates[:4]) == ("w4", ["w4", "w0", "w13", "w2"])


def test_members_are_independent_of_each_other_and_of_m():
    words = [f"w{i}" for i in range(50)]

    def build(member: int, seed: int) -> str:
        return chain_of(*draw_chain_words(words, GROWTH, member=member, seed=seed), noisy_count, max_words=4).text

    forwards, backwards = [build(i, 1) for i in range(4)], [build(i, 1) for i in reversed(range(4))]
    assert forwards == backwards[::-1]
    assert forwards != [build(i, 2) for i in range(4)]
    assert len(set(forwards)) > 1


def test_batch_sizes_do_not_matter():
    words = [f"w{i}" for i in range(70)]
    assert chain_of("start", words, noisy_count, batches=(1, 3)) == chain_of("start", words, noisy_count)
