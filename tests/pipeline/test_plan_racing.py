"""What the plan says of a race, held against a race that is run."""

from __future__ import annotations

import pytest
import torch

from wsoup.core.scoring import normalize
from wsoup.params.base.encoder import EncoderParams
from wsoup.pipeline import plan_texts as texts
from wsoup.search.rank.params import RacingRound
from wsoup.search.rank.pools import common_words
from wsoup.search.rank.racing import part_of, race, rounds
from wsoup.search.rank.scores import right_by_name, scores
from wsoup.search.rank.source import Source
from wsoup.towers.encoder import weightless_encoder

NAMES = ["red cat", "blue dog", "a rather small green bird", "fish", "tree"]
WORDS = common_words(30)
SHARD = 7


def really_encoded(source: Source, heats) -> list[tuple[int, int]]:
    """Texts and tokens of each round as stage score encodes them."""
    found = []

    def score(number, left):
        part = part_of(source, heats[number].classes)
        images, named = part.images(), right_by_name(part, images=part.images(), period=False)
        shards = [left[:1], *(left[i : i + SHARD] for i in range(1, len(left), SHARD))]
        done = [scores(part, shard, images=images, named=named, period=False) for shard in shards]
        found.append((part.texts.texts_encoded, part.texts.tokens_encoded))
        return {key: torch.cat([torch.from_numpy(one[key]) for one in done], dim=1).numpy() for key in done[0]}

    race(["", *WORDS], heats, n_seeds=2, score=score)
    return found


def planned(files, heats) -> list[texts.Count]:
    empty = weightless_encoder(EncoderParams(**files))
    source = texts.weightless_source(empty, template="a photo of a {}.", class_names=NAMES)
    return texts.score(source, WORDS, heats=heats, n_seeds=2, period=False, shard_size=SHARD)


@pytest.fixture
def source(tiny_encoder) -> Source:
    features = normalize(torch.randn(60, 16, generator=torch.Generator().manual_seed(0)))
    subsets = {1: torch.arange(40), 2: torch.arange(20, 60)}
    return Source(tiny_encoder, features, torch.arange(60) % 5, subsets, "a photo of a {}.", NAMES)


def test_rounds_lie_between_their_bounds_and_the_first_is_exact(source, tiny_encoder_files):
    heats = rounds([RacingRound(classes=0.4, keep=12), RacingRound(classes=0.6, keep=5)], n_classes=5)
    said, real = planned(tiny_encoder_files, heats), really_encoded(source, heats)
    assert (said[0].texts, said[0].tokens) == ((real[0][0],) * 2, (real[0][1],) * 2)
    for count, (n_texts, n_tokens) in zip(said, real, strict=True):
        assert count.texts[0] <= n_texts <= count.texts[1]
        assert count.tokens[0] <= n_tokens <= count.tokens[1]


def test_without_a_race_the_whole_ranking_is_exact(source, tiny_encoder_files):
    heats = rounds([], n_classes=5)
    said = [(count.texts, count.tokens) for count in planned(tiny_encoder_files, heats)]
    assert said == [((n_texts,) * 2, (n_tokens,) * 2) for n_texts, n_tokens in really_encoded(source, heats)]
