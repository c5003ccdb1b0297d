"""Kinds of soup other than Algorithms 1 and 2, each against a loop written from its definition."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from wsoup.base.errors import PoolError
from wsoup.core.member import NOTHING
from wsoup.core.scoring import normalize
from wsoup.search.grow.joint import JointSoup, fitted_scale, joint_soup, likely_on
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


# ------------------------------------------------------------------------------------------------ soup-aware growth


def text_features(text: str) -> torch.Tensor:
    """A made-up encoder: features (4, 6) of a text with four classes, different for every text."""
    generator = torch.Generator().manual_seed(sum(ord(c) * 31**i for i, c in enumerate(text)) % 2**31)
    anchors = torch.eye(4, 6) * 1.5
    return normalize(anchors + torch.randn(4, 6, generator=generator))


def encode(texts) -> torch.Tensor:
    return torch.stack([text_features(text) for text in texts])


def images_of_classes(n: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    labels = torch.arange(n) % 4
    return normalize(torch.eye(4, 6)[labels] + 0.6 * torch.randn(n, 6, generator=generator)), labels


def plain_likelihood(images, labels, soup: list[torch.Tensor], scale: float) -> float:
    """Mean log softmax of the labels by the centroid of some texts, in float64, one image at a time."""
    centroid = torch.nn.functional.normalize(torch.stack(soup).double().mean(dim=0), dim=-1)
    values = []
    for x, y in zip(images.double(), labels.tolist(), strict=True):
        logits = scale * (centroid @ x)
        values.append(float(logits[y] - torch.logsumexp(logits, dim=0)))
    return sum(values) / len(values)


def one_by_one_joint_soup(images, labels, *, draws, max_words, scale):
    """From the definition: keep a list of finished texts and try one word after the other."""
    finished: list[str] = []
    for first, *candidates in draws:
        chain = [first]

        def value(words: list[str]) -> float:
            texts = [*finished, " ".join(words)]
            return plain_likelihood(images, labels, [text_features(text) for text in texts], scale)

        bar = value(chain)
        for word in candidates:
            if len(chain) == max_words:
                break
            if (longer := value([*chain, word])) > bar:
                chain, bar = [*chain, word], longer
        finished.append(" ".join(chain))
    return finished


GROWTH = JointSoup(kind="joint", pool="words", m=3, k0=5, k1=30, patience=25, max_words=4)


def draws_of(seed: int) -> list[list[str]]:
    return [GROWTH.draw(WORDS, member=member, seed=seed) for member in range(GROWTH.m)]


@pytest.mark.parametrize("seed", range(4))
def test_joint_growth_equals_the_plain_loop(seed):
    images, labels = images_of_classes()
    draws, measure = draws_of(seed), likely_on(images, labels, scale=8.0)
    members = joint_soup(draws, features=encode, measure=measure, max_words=4)
    assert [m.text for m in members] == one_by_one_joint_soup(images, labels, draws=draws, max_words=4, scale=8.0)
    assert max(len(m.trace) for m in members) > 1, "the seed should give chains that grow"
    total = torch.zeros(())
    for member in members:
        total = total + text_features(member.text)
        nearest = [max(range(4), key=(normalize(total) @ image).tolist().__getitem__) for image in images]
        assert member.n_correct == sum(a == b for a, b in zip(nearest, labels.tolist(), strict=True))


def test_a_soup_is_measured_the_same_alone_and_in_a_batch():
    images, labels = images_of_classes()
    measure = likely_on(images, labels, scale=8.0)
    block = encode([f"text {i}" for i in range(40)])
    together = measure(block)
    alone = [measure(block[i : i + 1]) for i in range(40)]
    assert together[0] == [values[0] for values, _ in alone]
    assert together[1] == [counts[0] for _, counts in alone]


def test_the_fitted_scale_is_the_likeliest():
    images, labels = images_of_classes()
    texts = text_features("anything")
    scale = fitted_scale(images, labels, texts)
    likely = {s: plain_likelihood(images, labels, [texts], s) for s in (scale * 0.9, scale, scale * 1.1)}
    assert max(likely, key=likely.__getitem__) == scale
    assert 1 < scale < 1000


def test_the_scale_of_perfect_and_hopeless_classifiers_is_bounded():
    """With own scores 0.001 above the others the likelihood rises to the upper bound, and beyond."""
    images, labels = torch.eye(4), torch.arange(4)
    assert 30 < fitted_scale(images, labels, torch.eye(4)) <= 1000
    assert fitted_scale(images, labels, 0.001 * torch.eye(4)) == 1000
    assert fitted_scale(images, labels.flip(0), torch.eye(4)) == pytest.approx(1)
