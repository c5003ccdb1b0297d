"""Held-out soups: by hand, against a loop written from the definition with a real encoder, and their halves."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from wsoup.base.errors import DataError, PoolError
from wsoup.core.class_texts import normalize
from wsoup.core.member import NOTHING
from wsoup.search.candidates.pools import common_words
from wsoup.search.grow.greedy import greedy_soup
from wsoup.search.grow.held_out import Halves, HeldOutSoup, _Candidates
from wsoup.search.grow.measures import likely_on
from wsoup.search.grow.search import Search
from wsoup.search.rank.likelihood import likeliest_scale, log_likelihoods
from wsoup.search.rank.meter import Meter
from wsoup.search.rank.ranking import Ranked
from wsoup.search.rank.source import Source

NAMES = ["red cat", "blue dog", "a rather small green bird"]
AXES = torch.eye(2)


def at(*degrees: float) -> torch.Tensor:
    """Unit vectors at some angles: (n, 2)."""
    angles = torch.tensor(degrees) * math.pi / 180
    return torch.stack([angles.cos(), angles.sin()], dim=1)


# ------------------------------------------------------------------------------------------------------------ by hand


def test_likelihoods_of_soups_by_hand():
    """The sum of two texts that are turned by 30 degrees to either side points as the texts between them: an image on
    its class's text, the other class at a right angle, and a scale of log 3 give 3/4, in millionths of a nat."""
    turned = torch.stack([at(-30, 60), at(30, 120)]).sum(dim=0)
    values, counts = likely_on(AXES, torch.tensor([0, 1]), scale=math.log(3))(turned[None])
    assert values == [round(1e6 * math.log(0.75))] == [-287682]
    assert counts == [2]


def test_a_text_is_accepted_if_the_likelihood_rises_though_the_count_cannot():
    """Both images are right from the start. Texts turned by 30 degrees to one side gain by their mirror image, lose by
    texts turned further, and gain nothing by themselves."""
    texts = {"left": at(30, 120), "left again": at(30, 120), "far left": at(40, 130), "right": at(-30, 60)}
    blocks = [torch.stack(list(texts.values()))]
    measure = likely_on(AXES, torch.tensor([0, 1]), scale=10.0)
    members = greedy_soup(list(texts), features=lambda _: iter(blocks), measure=measure, m=4)
    assert [member.text for member in members] == ["left", "right"]
    assert [member.n_correct for member in members] == [2, 2]


# ------------------------------------------------------------------------------------------------------------- halves


def test_each_class_is_divided_evenly():
    labels = np.array([0, 1, 0, 1, 0, 1, 0, 1])
    ranks, accepts = Halves.of(labels, seed=1, split=0)
    assert sorted([*ranks, *accepts]) == list(range(8))
    assert labels[ranks].tolist().count(0) == labels[accepts].tolist().count(0) == 2


@pytest.mark.parametrize(("labels", "sizes"), [([0, 1, 2], (2, 1)), ([0, 0, 0, 1, 1], (3, 2)), ([5, 5], (1, 1))])
def test_odd_classes_and_single_shots_are_divided_too(labels, sizes):
    halves = Halves.of(np.array(labels), seed=1, split=0)
    assert tuple(map(len, halves)) == sizes
    for label in labels:
        of_class = [(np.array(labels)[half] == label).sum() for half in halves]
        assert abs(of_class[0] - of_class[1]) <= 1


def test_halves_are_those_of_their_seed_and_split():
    labels = np.arange(64) % 4
    same, again = (Halves.of(labels, seed=1, split=2) for _ in range(2))
    assert same.ranks.tolist() == again.ranks.tolist()
    for seed, split in ((1, 3), (2, 2)):
        assert Halves.of(labels, seed=seed, split=split).ranks.tolist() != same.ranks.tolist()
    chosen = np.concatenate([Halves.of(labels, seed=0, split=split).ranks for split in range(400)])
    assert np.bincount(chosen, minlength=64).min() > 150, "each image as likely on either half"


def test_a_single_image_has_no_halves():
    with pytest.raises(DataError, match=r"needs two images or more to split, not 1; raise fewshot\.shots"):
        Halves.of(np.array([0]), seed=1, split=0)


# ------------------------------------------------------------------------------------------------- with a real encoder


@pytest.fixture(scope="module")
def source(tiny_encoder) -> Source:
    features = normalize(torch.randn(60, 16, generator=torch.Generator().manual_seed(0)))
    subsets = {1: torch.arange(45), 2: torch.arange(15, 60)}
    return Source(tiny_encoder, features, torch.arange(60) % 3, subsets, "a photo of a {}.", NAMES)


def pool(n: int) -> Ranked:
    return Ranked(common_words(n), np.arange(n)[::-1], np.full(n, np.nan), period=False, cost=NOTHING)


def soup_of(source: Source, *, m: int, per_split: int, seed: int = 1, n: int = 40) -> list[str]:
    definition = HeldOutSoup(kind="held_out", pool="words", m=m, per_split=per_split)
    search = Search(definition, pool(n), source, seed)
    return search.soup([search.part(0)], made_with={}).texts


def plain_loop(source: Source, *, splits: int, per_split: int, seed: int) -> list[str]:
    """The definition, one text after the other."""
    meter = Meter(source, seed=seed, period=True)
    x, y = meter.images
    words = common_words(40)
    features = dict(zip(words, meter.features(words), strict=True))
    scale = likeliest_scale(x, y, next(iter(source.text_blocks([""], period=True)))[0])

    def value(texts: list[str], images: np.ndarray) -> int:
        mean = torch.stack([features[text] for text in texts]).mean(dim=0)
        logits = scale * x[images].double() @ normalize(mean).double().T
        return round(1e6 * -float(torch.nn.functional.cross_entropy(logits, y[images])))

    members = []
    for split in range(splits):
        ranks, accepts = Halves.of(y.numpy(), seed=seed, split=split)
        chosen: list[str] = []
        for text in sorted(words, key=lambda text: -value([text], ranks)):
            if len(chosen) < per_split and (not chosen or value([*chosen, text], accepts) > value(chosen, accepts)):
                chosen.append(text)
        members += chosen
    return members


@pytest.mark.parametrize("seed", [1, 2])
def test_a_soup_equals_the_plain_loop(source, seed):
    texts = soup_of(source, m=12, per_split=4, seed=seed)
    assert texts == plain_loop(source, splits=3, per_split=4, seed=seed)
    assert len(texts) > 6
    assert len(set(texts)) < len(texts), "a text that two splits choose is there twice"


def test_features_are_kept_for_all_splits_or_do_not_fit_and_are_encoded_again(source, monkeypatch):
    def encoded_for(m: int) -> tuple[int, list[str]]:
        before = source.text_encoder.texts_encoded
        texts = soup_of(source, m=m, per_split=4)
        return source.text_encoder.texts_encoded - before, texts

    once, kept = encoded_for(12)
    # To rank them, to count the members, and the class name to find the scale and to be counted.
    assert once == (40 + len(kept) + 2) * len(NAMES)
    monkeypatch.setattr("wsoup.search.grow.held_out.KEPT_BYTES", 0)
    again, texts = encoded_for(12)
    assert texts == kept
    assert again >= once + 3 * 4 * len(NAMES)


def test_features_that_are_kept_are_each_texts_own_whatever_the_blocks(source):
    """Blocks of the text encoder hold a few texts; here some hold one and some two."""
    texts = common_words(5)
    features = torch.randn(5, len(NAMES), 16, generator=torch.Generator().manual_seed(0))
    meter = SimpleNamespace(blocks=lambda texts: iter(features.split([2, 1, 2])))
    candidates = _Candidates(texts, meter)
    assert torch.equal(torch.cat([*candidates.all()]), features)
    order = [4, 0, 2, 1, 3]
    [kept] = candidates.of([texts[i] for i in order])
    assert torch.equal(kept, features[order])


def test_texts_are_searched_as_they_are_evaluated_whatever_their_pool_does(source):
    definition = HeldOutSoup(kind="held_out", pool="words", m=6, per_split=3)
    parts = [Search(definition, replace(pool(40), period=period), source, 1).part(0) for period in (False, True)]
    assert parts[0] == parts[1]


def test_a_longer_soup_starts_with_a_shorter_one(source):
    longest = soup_of(source, m=12, per_split=3)
    for m in (3, 6, 9):
        assert soup_of(source, m=m, per_split=3) == longest[:m]
    assert soup_of(source, m=5, per_split=3) == longest[:5], "the last split has fewer"


def test_members_are_counted_alone_and_traced_to_their_ranking(source):
    definition = HeldOutSoup(kind="held_out", pool="words", m=4, per_split=2)
    search = Search(definition, pool(40), source, 1)
    soup = search.soup([search.part(0)], made_with={})
    assert [member.n_correct for member in soup.members] == Meter(source, seed=1, period=True).count(
        soup.texts
    ).tolist()
    for member in soup.members:
        (step,) = member.trace
        assert step.n_correct == 39 - common_words(40).index(member.text)
    assert soup.definition == {"kind": "held_out", "pool": "words", "m": 4, "per_split": 2, "k1": None}
    assert soup.cost["search"].texts == 40, "every text is encoded once more, to be ranked on halves"
    assert search.part(0) == search.part(0), "the same every time"
    assert len(json.loads(search.part(0))["members"]) == 4


def test_no_texts_and_single_images_are_refused(source):
    with pytest.raises(PoolError, match="the pool is empty"):
        soup_of(source, m=2, per_split=2, n=0)
    one = Source(source.encoder, source.image_features, source.labels, {1: torch.tensor([0])}, source.template, NAMES)
    with pytest.raises(DataError, match="two images or more"):
        soup_of(one, m=2, per_split=2)


def test_the_first_text_of_a_split_is_the_likeliest_of_the_half_that_ranks(source):
    """Whatever the other half says, which decides what follows."""
    x, y = source.images_of(1)
    scale = likeliest_scale(x, y, next(iter(source.text_blocks([""], period=True)))[0])
    words = common_words(40)
    alone = log_likelihoods(x, y, Meter(source, seed=1, period=True).features(words), scale=scale)
    soup = soup_of(source, m=6, per_split=1)
    for split, text in enumerate(soup):
        ranks, accepts = Halves.of(y.numpy(), seed=1, split=split)
        assert words.index(text) == int(alone[:, ranks].mean(dim=1).argmax())
    assert len({int(alone[:, accepts].mean(dim=1).argmax()), words.index(text)}) == 2, "the halves disagree here"


def test_likelihoods_are_those_of_the_images_given(source):
    """A guard for the oracle above: the measure and the ranking share one function."""
    x, y = source.images_of(1)
    (block,) = source.text_blocks(common_words(3), period=False)
    values, _ = likely_on(x, y, scale=20.0)(block)
    assert values == pytest.approx(
        (1e6 * log_likelihoods(x, y, block, scale=20.0).double().mean(dim=1)).tolist(), abs=0.6
    )
