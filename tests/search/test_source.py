"""What selection reads: texts in blocks, counts per seed, and texts that exceed the context."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from wsoup.base.errors import PoolError
from wsoup.core.prompts import prompt
from wsoup.core.scoring import count_correct, normalize
from wsoup.search.grow.chains import ChainsSoup
from wsoup.search.grow.greedy import GreedySoup
from wsoup.search.grow.search import Search
from wsoup.search.rank.ranking import Ranked
from wsoup.search.rank.source import Meter, Source, check_fits, identity
from wsoup.soup.member import NOTHING, Member

NAMES = ["red cat", "blue dog", "a rather small green bird"]
TEMPLATE = "a photo of a {}."


@pytest.fixture
def source(tiny_encoder) -> Source:
    features = normalize(torch.randn(30, 16, generator=torch.Generator().manual_seed(0)))
    subsets = {1: torch.arange(20), 2: torch.arange(10, 30)}
    return Source(tiny_encoder, features, torch.arange(30) % 3, subsets, TEMPLATE, NAMES)


@pytest.mark.parametrize("period", [True, False])
def test_counts_equal_those_of_plainly_encoded_prompts(source, tiny_encoder, period):
    texts = ["", "sharp", "which has claws", "sharp clean"]
    for seed, index in source.subsets.items():
        expected = [
            count_correct(
                source.image_features[index],
                source.labels[index],
                tiny_encoder.encode_texts([prompt(TEMPLATE, name, text, period=period) for name in NAMES]),
            )
            for text in texts
        ]
        assert Meter(source, seed=seed, period=period).count(texts).tolist() == expected


def test_the_identity_of_images_is_their_features_and_labels(source):
    """In the resume key: another image or label of a seed is another shard, of the other seed alone if it is there."""
    moved, named = source.image_features.clone(), source.labels.clone()
    moved[5], named[5] = moved[6], 1 - named[5]
    for change in ({"image_features": moved}, {"labels": named}):
        changed = dataclasses.replace(source, **change)
        assert identity(changed, seed=1) != identity(source, seed=1)
        assert identity(changed, seed=2) == identity(source, seed=2), "image 5 is not of seed 2"
        assert identity(changed) != identity(source)
    assert identity(dataclasses.replace(source, template="{}."), seed=2) != identity(source, seed=2)


def test_a_text_that_exceeds_the_context_is_named(source):
    long = "very " * 70 + "long"
    check_fits(["short", "which has claws " * 4], source=source, origin=Path("pool.txt"))
    with pytest.raises(PoolError, match=r"pool\.txt: 'very very .* does not fit the model's context of 77 tokens"):
        check_fits(["short", long], source=source, origin=Path("pool.txt"))


def test_a_tokenizer_may_pad_with_any_id(source, tiny_encoder):
    def padded_with_one(texts):
        tokens = tiny_encoder.tokenizer(texts)
        return tokens.masked_fill(tokens == 0, 1)

    source = dataclasses.replace(source, encoder=dataclasses.replace(tiny_encoder, tokenizer=padded_with_one))
    check_fits(["which has claws"], source=source, origin=Path("pool.txt"))
    with pytest.raises(PoolError, match="does not fit"):
        check_fits(["very " * 70 + "long"], source=source, origin=Path("pool.txt"))


@pytest.mark.parametrize("period", [True, False])
def test_final_counts_are_of_the_texts_that_are_evaluated(source, period):
    pool = ["sharp", "which has claws", "red", "in the dark", "clean", "wet", "far away"]
    greedy = GreedySoup(kind="greedy", pool="descriptors", m=4)
    ranked = Ranked(pool, np.arange(len(pool)), np.zeros(len(pool)), period, NOTHING)
    members = members_of(Search(greedy, ranked, source, 1))
    assert len(members) > 1
    features = torch.cat(list(source.text_blocks([member.text for member in members], period=True)))
    for i, member in enumerate(members):
        expected = count_correct(*source.images_of(1), normalize(features[: i + 1].mean(dim=0)))
        assert member.n_correct == expected
    chains = ChainsSoup(kind="chains", pool="words", k0=2, k1=7, patience=7, m=1, max_words=3)
    (chain,) = members_of(Search(chains, ranked, source, 1))
    assert chain.n_correct == Meter(source, seed=1, period=True).count([chain.text])[0]
    assert 1 < len(chain.trace) <= 3


def members_of(search: Search) -> tuple[Member, ...]:
    return search.soup([search.part(0)], made_with={}).members
