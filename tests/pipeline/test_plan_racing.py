"""The plan's bounds for a race, compared with a race that is run."""

from __future__ import annotations

import pytest
import torch

from wsoup.core.scoring import normalize
from wsoup.params.inputs import EncoderParams
from wsoup.pipeline import plan_texts
from wsoup.search.rank.params import RacingRound
from wsoup.search.rank.pools import common_words
from wsoup.search.rank.racing import race, rounds_of
from wsoup.search.rank.source import Source
from wsoup.search.rank.statistics import right_by_name, scores
from wsoup.towers.encoder import weightless_encoder

NAMES = ["red cat", "blue dog", "a rather small green bird", "fish", "tree"]
WORDS = common_words(30)
SHARD = 7


def really_encoded(source: Source, rounds) -> list[tuple[int, int]]:
    """Texts and tokens of each round as stage score encodes them."""
    encoded = []

    def score(part, left):
        images, named = part.images(), right_by_name(part, images=part.images(), period=False)
        shards = [left[:1], *(left[i : i + SHARD] for i in range(1, len(left), SHARD))]
        done = [scores(part, shard, images=images, baseline_right=named, period=False) for shard in shards]
        encoded.append((part.texts.texts_encoded, part.texts.tokens_encoded))
        return {key: torch.cat([torch.from_numpy(one[key]) for one in done], dim=1).numpy() for key in done[0]}

    race(source, ["", *WORDS], rounds, score=score)
    return encoded


def planned(files, rounds) -> list[list[list[float]]]:
    """Least and most of texts and tokens of each round."""
    empty = weightless_encoder(EncoderParams(**files))
    source = plan_texts.weightless_source(empty, template="a photo of a {}.", class_names=NAMES)
    options = {"n_seeds": 2, "period": False, "shard_size": SHARD}
    return [text[:, :2].tolist() for text in plan_texts.score(source, WORDS, rounds=rounds, **options)]


@pytest.fixture
def source(tiny_encoder) -> Source:
    features = normalize(torch.randn(60, 16, generator=torch.Generator().manual_seed(0)))
    subsets = {1: torch.arange(40), 2: torch.arange(20, 60)}
    return Source(tiny_encoder, features, torch.arange(60) % 5, subsets, "a photo of a {}.", NAMES)


def test_rounds_lie_between_their_bounds_and_the_first_is_exact(source, tiny_encoder_files):
    rounds = rounds_of([RacingRound(classes=0.4, keep=12), RacingRound(classes=0.6, keep=5)], n_classes=5)
    bounds, real = planned(tiny_encoder_files, rounds), really_encoded(source, rounds)
    assert [tuple(bound) for bound in bounds[0]] == [real[0], real[0]]
    for (least, most), (n_texts, n_tokens) in zip(bounds, real, strict=True):
        assert least[0] <= n_texts <= most[0]
        assert least[1] <= n_tokens <= most[1]


def test_without_a_race_the_whole_ranking_is_exact(source, tiny_encoder_files):
    rounds = rounds_of([], n_classes=5)
    bounds = [[tuple(bound) for bound in both] for both in planned(tiny_encoder_files, rounds)]
    assert bounds == [[both, both] for both in really_encoded(source, rounds)]
