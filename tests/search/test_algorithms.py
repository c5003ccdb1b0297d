"""Algorithms 1 and 2, on a circle where the right answers are known without weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wsoup.base.errors import PoolError
from wsoup.core.class_texts import normalize
from wsoup.core.draws import member_generator, named_generator
from wsoup.core.member import Member
from wsoup.core.scoring import Scores
from wsoup.search.grow.chains import ChainsSoup
from wsoup.search.grow.greedy import greedy_soup
from wsoup.search.grow.measures import right_on
from wsoup.search.grow.rising import BATCHES, Judgement, rises
from wsoup.search.rank.ranking import rank


def blocks_of(features: torch.Tensor, pool: Sequence[str], size: int):
    """An encoder: the features of the given texts in blocks."""

    def encode(texts: Sequence[str]) -> Iterator[torch.Tensor]:
        rows = torch.stack([features[pool.index(text)] for text in texts])
        return iter(rows.split(size))

    return encode


def one_by_one_descriptor_soup(ranked, features, pool, images, labels, m):
    """Algorithm 1 as the paper writes it: re-average the whole list at every step."""

    def count(members: Sequence[str]) -> int:
        mean = torch.stack([features[pool.index(d)] for d in members]).mean(dim=0)
        return int(Scores(images, normalize(mean)[None]).right(labels).sum())

    members = [ranked[0]]
    for candidate in ranked[1:]:
        if count([*members, candidate]) > count(members):
            members = [*members, candidate]
    return members[:m]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("block", [1, 7, 100])
def test_descriptor_soup_equals_the_plain_loop(seed, block):
    generator = torch.Generator().manual_seed(seed)
    features = normalize(torch.randn(40, 6, 5, generator=generator))
    images, labels = normalize(torch.randn(90, 5, generator=generator)), torch.arange(90) % 6
    pool = [f"which is {i}" for i in range(40)]
    ranked = [pool[i] for i in rank(Scores(images, features).right(labels).sum(dim=1).tolist())]
    members = greedy_soup(ranked, features=blocks_of(features, pool, block), measure=right_on(images, labels), m=4)
    assert [m.text for m in members] == one_by_one_descriptor_soup(ranked, features, pool, images, labels, 4)
    assert len(members) > 1, "the seed should give a soup that grows"


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
    alone = greedy_soup(pool, features=blocks_of(features, pool, 3), measure=right_on(images, labels), m=1)
    assert [m.text for m in alone] == ["left"]


def test_an_empty_pool_is_an_error():
    with pytest.raises(PoolError, match="the pool is empty"):
        greedy_soup([], features=lambda _: iter(()), measure=right_on(torch.empty(0, 2), torch.empty(0)), m=1)


@settings(deadline=None, max_examples=60)
@given(
    steps=st.lists(st.integers(0, 40), min_size=1, max_size=90),
    batches=st.sampled_from([BATCHES, (1, 1), (1, 3), (5, 64), (64, 64)]),
)
def test_speculative_batches_accept_what_the_plain_loop_accepts(steps, batches):
    """Values depend on what was accepted before, as those of soups and chains do, and often tie."""

    def value(index: int, accepted: list[int]) -> int:
        return 7 * len(accepted) + (steps[index] * 31 + sum(accepted) * 17) % 23

    expected: list[int] = []
    bar = float("-inf")
    for index in range(len(steps)):
        if (here := value(index, expected)) > bar:
            expected, bar = [*expected, index], here
    accepted: list[int] = []

    def judge(names: Sequence[str]) -> list[Judgement]:
        return [Judgement(value(int(name), accepted), 0) for name in names]

    for index, judged in rises([str(i) for i in range(len(steps))], judge=judge, batches=batches):
        assert judged.value == value(index, accepted)
        accepted.append(index)
    assert accepted == expected


GROWTH = ChainsSoup(kind="chains", pool="words", m=4, k0=5, k1=20, patience=12, max_words=4)
WORDS = [f"w{i}" for i in range(50)]


class Given(ChainsSoup):
    """Chains whose words are not drawn, but given in this order."""

    def draw(self, ranked: Sequence[str], *, member: int, seed: int) -> list[str]:
        return list(ranked)


def chain_of(words: Sequence[str], count, *, max_words: int = 10) -> Member:
    definition = Given(kind="chains", pool="words", m=1, k0=1, k1=1, patience=1, max_words=max_words)
    meter = SimpleNamespace(seed=1, count=lambda texts: np.array([count(text) for text in texts]))
    (member,) = definition.members(SimpleNamespace(texts=words), meter, part=0)
    return member


def noisy_count(text: str) -> int:
    """A count that depends on the whole text in no simple way, but is the same in every process."""
    return sum(map(ord, text)) * 7919 % 83 + 9 * len(text.split())


@settings(deadline=None, max_examples=60)
@given(words=st.lists(st.text("abcdefgh", min_size=1, max_size=6), min_size=1, max_size=90), most=st.integers(1, 6))
def test_a_chain_equals_the_plain_loop(words, most):
    """Algorithm 2's inner loop, one candidate at a time."""
    chain, bar = words[:1], noisy_count(words[0])
    for word in words[1:]:
        n_correct = noisy_count(" ".join([*chain, word]))
        if len(chain) < most and n_correct > bar:
            chain, bar = [*chain, word], n_correct
    member = chain_of(words, noisy_count, max_words=most)
    assert (member.text, member.n_correct) == (" ".join(chain), bar)
    assert [step.added for step in member.trace] == chain


def test_a_word_is_added_only_if_the_count_rises_strictly():
    counts = {"a": 5, "a b": 5, "a c": 6, "a c b": 6, "a c d": 7}
    member = chain_of(["a", "b", "c", "b", "d"], lambda text: counts.get(text, 0))
    assert member.text == "a c d"
    assert [step.n_correct for step in member.trace] == [5, 6, 7]


def test_the_bar_rises_with_each_accepted_word():
    """If it did not (the slip in the paper's pseudo-code), 'worse', at 6 against 5, would be accepted, too."""
    counts = {"a": 5, "a best": 9, "a worse": 6, "a best worse": 6}
    assert chain_of(["a", "best", "worse"], lambda text: counts.get(text, 0)).text == "a best"
    assert chain_of(["a"], lambda text: 3).text == "a", "without candidates, the first word"


def test_first_words_come_from_the_top_k0_and_further_ones_from_the_top_k1():
    """All of them, over many members: one less of either would be missed by no chain's own test."""
    draws = [GROWTH.draw(WORDS, member=member, seed=1) for member in range(60)]
    assert {first for first, *_ in draws} == set(WORDS[:5])
    assert all(len(set(candidates)) == len(candidates) == 12 for _, *candidates in draws)
    assert {word for _, *candidates in draws for word in candidates} == set(WORDS[:20])


def test_a_named_draw_is_pinned():
    """Soups of other versions are found again only if the draws of (purpose, seed, member) stay the same."""
    assert member_generator(purpose="word_soup", seed=1, member=0).permutation(6).tolist() == [3, 0, 5, 1, 4, 2]
    assert named_generator(1, "classes", 2).permutation(6).tolist() == [0, 1, 3, 4, 2, 5]
    assert GROWTH.draw(WORDS, member=1, seed=1)[:5] == ["w4", "w4", "w0", "w13", "w2"]


def test_members_differ_by_seed_and_do_not_depend_on_m():
    def build(member: int, seed: int, m: int) -> list[str]:
        return GROWTH.model_copy(update={"m": m}).draw(WORDS, member=member, seed=seed)

    assert [build(i, 1, 4) for i in range(4)] == [build(i, 1, 8) for i in range(4)]
    assert len({tuple(build(i, seed, 4)) for i in range(4) for seed in (1, 2)}) == 8
