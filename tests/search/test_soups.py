"""Every kind of soup as the stage makes it, from a ranked pool and a small real encoder; its cost, and rankings."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import pytest
import torch
from soup_cases import FILE, KINDS, MODELS, choices, define, file_of, varied
from tower_cases import model

from wsoup.base.errors import MismatchError, ParamsError, PoolError
from wsoup.core.class_texts import normalize
from wsoup.core.member import NOTHING, Cost, Member
from wsoup.core.scoring import Scores
from wsoup.core.soup import Soup
from wsoup.disk.store import write_table
from wsoup.search.candidates.pools import common_words
from wsoup.search.grow.all_kinds import SoupParams
from wsoup.search.grow.greedy import GreedySoup
from wsoup.search.grow.kind import AnySoup
from wsoup.search.grow.sample import drawn as sampled
from wsoup.search.grow.search import Search
from wsoup.search.rank.meter import Meter, cost_of
from wsoup.search.rank.ranking import Ranked, read_ranked
from wsoup.search.rank.source import Source
from wsoup.search.rank.statistics import statistics
from wsoup.texts.encoder import PromptEncoder

NAMES = ["red cat", "blue dog", "a rather small green bird"]


@pytest.fixture(scope="module")
def source(tiny_encoder) -> Source:
    features = normalize(torch.randn(60, 16, generator=torch.Generator().manual_seed(0)))
    return Source(tiny_encoder, features, torch.arange(60) % 3, {1: torch.arange(45)}, "a photo of a {}.", NAMES)


@pytest.fixture(scope="module")
def ranked(source) -> Ranked:
    words = common_words(20)
    (block,) = source.text_blocks(words, period=False)
    scores = statistics(source.images(), block, baseline_right=torch.zeros(60, dtype=torch.bool))
    order = torch.argsort(scores["n_correct"][0], descending=True, stable=True)
    return Ranked(
        [words[i] for i in order],
        scores["n_correct"][0, order].numpy(),
        scores["k2"][0, order].numpy(),
        False,
        Cost(20, 60, 600),
    )


def build(definition: SoupParams, *, source: Source, ranked: Ranked) -> tuple[list[Member], Cost]:
    search = Search(definition, ranked, source, 1)
    soup = search.soup(map(search.part, range(definition.parts)), made_with={})
    return list(soup.members), soup.cost["search"]


@pytest.mark.parametrize("kind", KINDS)
def test_members_come_from_the_candidates_and_have_counts(kind, source, ranked):
    definition = define(kind)
    members, _ = build(definition, source=source, ranked=ranked)
    allowed = set(Search(definition, ranked, source, 1).ranked.texts)
    assert 1 <= len(members) <= 3
    assert all(set(member.text.split()) <= allowed for member in members)
    assert all(member.n_images == 45 and member.n_correct is not None for member in members)
    assert (members, _) == build(definition, source=source, ranked=ranked), "the same every time"


@pytest.mark.parametrize("kind", KINDS)
def test_resume_keys_hold_m_except_that_chains_do_not_depend_on_it(kind, source, ranked):
    few, many = (Search(define(kind, m=m), ranked, source, 1).inputs for m in (2, 3))
    assert (few == many) is (kind == "chains")


@pytest.mark.parametrize("kind", KINDS)
def test_resume_keys_hold_what_a_part_depends_on_and_nothing_of_another_seed(kind, source, ranked):
    """Likelihoods decide the kind `top` alone; the final period and the images of its seed every kind."""
    both = replace(source, subsets={1: torch.arange(30), 2: torch.arange(30, 60)})
    moved = source.image_features.clone()
    moved[40] = moved[41]
    likelier = replace(ranked, log_likelihood=ranked.log_likelihood / 2)
    definition = define(kind)
    key = Search(definition, ranked, both, 1).inputs
    assert (Search(definition, likelier, both, 1).inputs == key) is (kind != "top")
    assert Search(definition, replace(ranked, period=not ranked.period), both, 1).inputs != key
    assert Search(definition, ranked, replace(both, image_features=moved), 1).inputs == key
    assert Search(definition, ranked, replace(both, image_features=moved), 2).inputs != (
        Search(definition, ranked, both, 2).inputs
    )


def test_every_chain_has_its_own_draw(source, ranked):
    definition = define("chains")
    members, _ = build(definition, source=source, ranked=ranked)
    drawn = [definition.draw(ranked.texts, member=i, seed=1)[0] for i in range(3)]
    assert [member.trace[0].added for member in members] == drawn
    assert len(set(drawn)) > 1


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_soup_is_of_its_seeds_draws_and_images(kind, seed, source, ranked):
    """Seed 2 has other images than seed 1, and fewer."""
    both = replace(source, subsets={1: torch.arange(45), 2: torch.arange(30, 60)})
    definition = define(kind)
    search = Search(definition, ranked, both, seed)
    soup = search.soup(map(search.part, range(definition.parts)), made_with={})
    assert soup.seed == seed
    assert {member.n_images for member in soup.members} == {45 if seed == 1 else 30}
    if kind == "chains":
        drawn = [definition.draw(ranked.texts, member=i, seed=seed)[0] for i in range(3)]
        assert [member.trace[0].added for member in soup.members] == drawn
    if kind == "sample":
        assert soup.texts == [ranked.texts[i] for i in sampled(12, m=3, seed=seed)]
    if kind == "chains":
        alone = Meter(both, seed=seed, period=False).count(soup.texts)
        assert [member.trace[-1].n_correct for member in soup.members] == alone.tolist()
    assert soup.class_name_correct == Meter(both, seed=seed, period=True).count([""])[0]


def test_a_search_counts_texts_with_the_final_period_only_if_their_pool_has_it(source, ranked):
    """As in the ranking; the class name that a soup is shown beside always has it."""
    other = {}
    for period in (True, False):
        meter = Meter(source, seed=1, period=period)
        other[period] = meter.count([*ranked.texts, ""]).tolist()
        members, _ = build(define("chains"), source=source, ranked=replace(ranked, period=period))
        for member in members:
            chains = [" ".join(step.added for step in member.trace[: n + 1]) for n in range(len(member.trace))]
            assert [step.n_correct for step in member.trace] == meter.count(chains).tolist()
    assert sum(a != b for a, b in zip(*other.values(), strict=True)) > 5, "the period decides many counts here"


@pytest.mark.parametrize("period", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_final_counts_are_of_the_texts_that_are_evaluated(kind, period, source, ranked):
    """With their final period; of the soup up to a member where the search judged soups, else of the member alone."""
    members, _ = build(define(kind), source=source, ranked=replace(ranked, period=period))
    features = torch.cat(list(source.text_blocks([member.text for member in members], period=True)))
    judged = features.cumsum(dim=0) if kind == "greedy" else features
    images, labels = source.images_of(1)
    counts = Scores(images, normalize(judged)).right(labels).sum(dim=1).tolist()
    assert [member.n_correct for member in members] == counts


def test_every_kind_of_soup_has_a_case():
    assert KINDS.keys() == MODELS.keys(), f"{FILE}: KINDS has a line for each kind of wsoup/search/grow/all_kinds.py"


def test_a_choice_is_tried_at_each_of_its_values():
    assert [*choices(Literal["count", "likelihood"] | None)] == ["count", "likelihood", None]
    assert [*choices(Annotated[bool, "a switch"])] == [False, True]
    assert [*choices(int), *choices(str)] == []
    tried = {case.id for case in varied()}
    assert {"greedy", "top rank_by count", "top rank_by count_k2", "sample k1 None", "held_out k1 None"} <= tried


@pytest.mark.parametrize("definition", varied())
@pytest.mark.parametrize("seed", range(3))
def test_a_search_and_its_final_counts_judge_in_the_same_way(definition, seed, source, ranked):
    """Where the search counts finished texts, its counts are final, so its two ways to count must be one."""
    # Several draws of images, since on a single one two ways to judge may agree by chance; and images near all classes,
    # where many ways to judge differ.
    (names,) = source.text_blocks([""], period=True)
    noise = torch.randn(60, 16, generator=torch.Generator().manual_seed(seed))
    images = normalize(normalize(names.mean(dim=(0, 1))) + 0.1 * noise)
    other = replace(source, image_features=images)
    meter = Meter(other, seed=1, period=True)
    members = definition.members(Search(definition, ranked, other, 1).ranked, meter, part=0)
    searched = [member for member in members if member.n_correct is not None]
    counts = [member.n_correct for member in searched]
    final = definition.final_counts([member.text for member in searched], meter) if searched else []
    file = file_of(type(definition))
    assert counts == final, f"{file}: members() judges otherwise than final_counts(): let both use self.measure"


def test_a_kind_must_say_how_its_members_are_counted(source, ranked):
    """A default would count the members of a kind that judges whole soups alone, without a word."""

    class Careless(GreedySoup):
        final_counts = AnySoup.final_counts

    careless = Careless(kind="greedy", pool="words", m=2)
    with pytest.raises(NotImplementedError):
        Search(careless, ranked, source, 1)._counted([Member("a", 1)])


def test_a_soup_says_how_it_was_searched(source, ranked):
    definition = define("chains", k0=3)
    search = Search(definition, ranked, source, 1)
    soup = search.soup(map(search.part, range(definition.parts)), made_with={})
    assert soup.definition == definition.model_dump(mode="json")
    assert soup.definition.items() >= {"kind": "chains", "pool": "words", "m": 3, "k0": 3}.items()


def test_the_class_name_is_counted_beside_the_first_part_alone(source, ranked):
    search = Search(define("chains"), ranked, source, 1)
    assert ["class_name_correct" in json.loads(search.part(number)) for number in range(3)] == [True, False, False]


@pytest.mark.parametrize("kind", ["top", "sample"])
def test_kinds_without_a_search_cost_only_the_ranking(kind, source, ranked):
    search = Search(define(kind), ranked, source, 1)
    assert search.soup([search.part(0)], made_with={}).cost == {"ranking": ranked.cost, "search": NOTHING}


def test_a_sample_of_the_whole_pool_needs_no_ranking(source, ranked):
    search = Search(define("sample", k1=None), ranked, source, 1)
    assert search.soup([search.part(0)], made_with={}).cost["ranking"] == NOTHING
    assert search.ranked.texts == ranked.texts


def test_a_pool_that_is_too_small_is_refused(source, ranked):
    with pytest.raises(PoolError, match="k1 is 21 but the pool words holds 20; lower k1"):
        Search(define("top", k1=21), ranked, source, 1).part(0)


@pytest.mark.parametrize(
    ("definition", "required", "parts"),
    [
        (define("greedy", m=3), None, 1),
        (define("chains", m=3, k0=2, k1=9), ("k1", 9), 3),
        (define("top", m=3, k1=9), ("k1", 9), 1),
        (define("sample", m=3, k1=9), ("k1", 9), 1),
        (define("held_out", m=3), None, 1),
        (define("sample", m=3, k1=None), ("m", 3), 1),
    ],
)
def test_each_kind_knows_how_many_candidates_it_requires(definition, required, parts):
    assert definition.parts == parts
    assert definition.unranked is (definition.kind == "sample" and definition.limit is None)
    key, least = required or ("m", 0)
    assert definition.shortage(least) is None
    problem = definition.shortage(least - 1)
    said = f"{key} is {least} but the pool words holds {least - 1}; lower {key}, or give more texts"
    assert problem == (said if required else None)


@pytest.mark.parametrize("kind", ["top", "sample"])
def test_more_members_than_candidates_are_refused(kind):
    with pytest.raises(ParamsError, match=r"m \(3\) must not exceed k1 \(2\)"):
        define(kind, k1=2)


# --------------------------------------------------------------------------------------------------------------- cost


def test_a_cost_counts_every_prefix_after_the_class_name_once(source):
    """Distinct texts: sharp | wet nose | wet tail; tokens: sharp . wet nose . tail . (. is the end token)."""
    texts = ["sharp", "wet nose", "wet tail", "sharp"]
    cost = cost_of(texts, period=False, source=source)
    assert (cost.texts, cost.tokens) == (3, 3 * 7)
    tower = source.text_encoder.tower
    assert cost.flops == tower.flops(21, reads=9)


def test_a_cost_is_what_a_new_encoder_computes(source, tiny_encoder):
    """Not counting the class prompts; here all words fit into one trie."""
    fresh = Source(tiny_encoder, source.image_features, source.labels, source.subsets, source.template, NAMES)
    assert fresh.text_encoder.fast
    Meter(fresh, seed=1, period=False).count(["the"])  # the class prompts
    before, words = fresh.text_encoder.tokens_encoded, common_words(10)
    Meter(fresh, seed=1, period=False).count(words)
    cost = cost_of(words, period=False, source=fresh)
    assert fresh.text_encoder.tokens_encoded - before == cost.tokens


def test_a_model_that_is_not_taken_apart_computes_all_positions_of_every_prompt(source, tiny_encoder):
    """Two texts with three classes in a context of 77 tokens; equal texts count once."""
    whole = replace(tiny_encoder, model=model("norm last, not causal"))
    plain = replace(source, encoder=whole)
    assert plain.text_encoder.tower is None
    assert cost_of(["sharp", "ears", "sharp"], period=True, source=plain) == Cost(2, 2 * 3 * 77, None)


def test_all_texts_of_a_search_cost_however_many_blocks_they_come_in(source, monkeypatch):
    """Blocks of one text each, as with many classes; three of them are asked for."""
    one_by_one = functools.partialmethod(PromptEncoder.grid_blocks, block_bytes=1)
    monkeypatch.setattr(PromptEncoder, "grid_blocks", one_by_one)
    meter = Meter(source, seed=1, period=True)
    for _, block in zip(range(3), meter.blocks(["sharp", "ears", "old", "wet"]), strict=False):
        assert len(block) == 1
    assert meter.cost() == cost_of(["sharp", "ears", "old"], period=True, source=source)


def test_a_meter_does_not_depend_on_order_or_batches(source):
    texts = ["sharp", "sharp clean", "sharp red", "wet"]
    costs = []
    for chunks in ([texts], [[text] for text in texts], [texts[::-1], texts]):
        meter = Meter(source, seed=1, period=False)
        for chunk in chunks:
            meter.count(chunk)
        costs.append(meter.cost())
    assert costs[0] == costs[1] == costs[2]
    meter.blocks(["never", "asked"])
    assert meter.cost() == costs[2], "blocks that are not consumed cost nothing"


def test_a_soup_file_keeps_costs_and_has_no_other_keys(tmp_path):
    costs = {"ranking": Cost(10, 30, 300), "search": Cost(1, 2, None)}
    soup = Soup("top", 1, "a {}.", {"model": "x", "pretrained": "y"}, (Member("sharp"),), {}, cost=costs)
    soup.save(tmp_path / "soup.json")
    assert Soup.load(tmp_path / "soup.json") == soup
    with pytest.raises(MismatchError, match="class_name_weight"):
        Soup.from_json({**soup.as_json(), "class_name_weight": 0.0}, origin="another")


# ------------------------------------------------------------------------------------------------------------ ranking


def write_scores(path, *, pool, texts, counts, seeds=(1, 2)):
    import pyarrow as pa

    n = len(texts)
    columns = {
        "text": texts * len(seeds),
        "seed": np.repeat(seeds, n),
        "n_correct": [count + seed for seed in seeds for count in counts],
        "k2": -np.arange(n * len(seeds), dtype=float),
    }
    about = {"encoder": {"model": "x"}, "pool": pool, "period": pool == "descriptors", "cost": Cost(n, n, n).as_json()}
    write_table(path, pa.table(columns), attributes=about)
    return path


def test_a_ranking_has_the_likelihood_of_each_text_and_no_class_name(tmp_path):
    """By falling count, ties in pool order; the likelihoods written are 0, -1, -2, ... in pool order."""
    for pool, period in (("words", False), ("descriptors", True)):
        path = write_scores(tmp_path / pool, pool=pool, texts=["", "red", "wet", "old"], counts=[9, 1, 5, 5])
        read = read_ranked(path, seed=2, encoder_id={"model": "x"})
        assert (read.texts, read.n_correct.tolist()) == (["wet", "old", "red"], [7, 7, 3])
        assert read.log_likelihood.tolist() == [-6, -7, -5]
        assert (read.period, read.cost) == (period, Cost(4, 4, 4))


def test_scores_without_the_seed_or_of_another_encoder_are_refused(tmp_path):
    path = write_scores(tmp_path / "w", pool="words", texts=["red"], counts=[1])
    with pytest.raises(MismatchError, match="holds no scores of seed 3"):
        read_ranked(path, seed=3, encoder_id={"model": "x"})
    with pytest.raises(MismatchError, match="model"):
        read_ranked(path, seed=1, encoder_id={"model": "y"})
