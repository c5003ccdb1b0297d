"""Racing: the rounds by hand, the race against plain loops, its cost, and what soups may use of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from wsoup.base.errors import PoolError
from wsoup.check.soups import SoupParams
from wsoup.core.scoring import normalize
from wsoup.search.grow.search import Search
from wsoup.search.rank.params import RacingParams, RacingRound
from wsoup.search.rank.pools import common_words
from wsoup.search.rank.racing import part_of, race, racing_cost, rounds_of
from wsoup.search.rank.ranking import Ranked, ranked
from wsoup.search.rank.source import Source, cost_of
from wsoup.search.rank.statistics import right_by_name, scores
from wsoup.soup.member import NOTHING, Cost

NAMES = ["red cat", "blue dog", "a rather small green bird", "fish", "tree", "old house"]
POOL = ["", *common_words(24)]
RACE = [RacingRound(classes=0.34, keep=12), RacingRound(classes=0.67, keep=6)]
SEEDS = {1: torch.arange(0, 60), 2: torch.arange(25, 90).flip(0)}


@pytest.fixture(scope="module")
def source(tiny_encoder) -> Source:
    """Images near the text features of their class, so that texts differ in accuracy."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(6, (90,), generator=generator)
    names = tiny_encoder.encode_texts([f"a photo of a {name}." for name in NAMES])
    features = normalize(names[labels] - names.mean(dim=0) + 0.1 * torch.randn(90, 16, generator=generator))
    return Source(tiny_encoder, features, labels, SEEDS, "a photo of a {}.", NAMES)


@pytest.fixture(scope="module")
def raced_here(source) -> dict[str, np.ndarray]:
    return run(source, rounds_of(RACE, n_classes=6))


def run(source: Source, rounds) -> dict[str, np.ndarray]:
    def score(part, texts):
        images = part.images()
        baseline_right = right_by_name(part, images=images, period=False)
        return scores(part, texts, images=images, baseline_right=baseline_right, period=False)

    return race(source, POOL, rounds, score=score)


def plain_scores(source: Source, text: str, *, classes, index) -> tuple[int, float]:
    """Count and k2 of one text among some classes, one image at a time, in float64."""
    prompts = [f"a photo of a {NAMES[c]}, {text}" if text else f"a photo of a {NAMES[c]}" for c in classes]
    texts = source.texts.encode(prompts).double().numpy()
    rows, own = [], []
    for i in index.tolist():
        if int(source.labels[i]) in classes:
            rows.append(texts @ source.image_features[i].double().numpy())
            own.append(classes.index(int(source.labels[i])))
    sigma = sum(float(np.std(row)) for row in rows) / len(rows)
    likely = [
        2 * row[y] / sigma - math.log(sum(math.exp(2 * s / sigma) for s in row))
        for row, y in zip(rows, own, strict=True)
    ]
    return sum(int(np.argmax(row)) == y for row, y in zip(rows, own, strict=True)), sum(likely) / len(likely)


def plain_race(source: Source, rounds, index) -> dict[str, tuple[int, int, float]]:
    """One seed: text -> (classes of its last round, count, k2), by lists and sorting."""
    left, last = list(POOL), {}
    for each in rounds:
        classes = list(each.classes)
        for text in left:
            last[text] = (len(classes), *plain_scores(source, text, classes=classes, index=index))
        if each.keep is not None:
            words = [text for text in left if text]
            columns = [[last[text][i] for text in words] for i in (1, 2)]
            means = [sum(values) / len(words) for values in columns]
            spreads = [
                math.sqrt(sum((v - mean) ** 2 for v in values) / len(words)) or 1.0
                for values, mean in zip(columns, means, strict=True)
            ]
            value = {t: sum((last[t][i + 1] - means[i]) / spreads[i] for i in (0, 1)) for t in words}
            best = sorted(words, key=lambda t: -round(value[t], 9))[: each.keep]
            left = [text for text in left if not text or text in best]
    return last


def test_a_race_equals_plain_loops(source, raced_here):
    rounds, columns = rounds_of(RACE, n_classes=6), raced_here
    for k, index in enumerate(SEEDS.values()):
        plain = plain_race(source, rounds, index)
        assert dict(zip(POOL, columns["n_classes"][k].tolist(), strict=True)) == {t: n for t, (n, *_) in plain.items()}
        assert dict(zip(POOL, columns["n_correct"][k].tolist(), strict=True)) == {
            t: n for t, (_, n, _) in plain.items()
        }
        assert columns["k2"][k] == pytest.approx([plain[text][2] for text in POOL], rel=1e-4)
        assert sorted(set(columns["n_classes"][k].tolist())) == [2, 4, 6]


def test_finalists_have_the_scores_of_the_whole_ranking(source, raced_here):
    whole, columns = run(source, rounds_of([], n_classes=6)), raced_here
    assert (whole["n_classes"] == 6).all()
    last = columns["n_classes"] == 6
    assert last.sum(axis=1).tolist() == [7, 7], "six, and the class name alone"
    for name in ("n_correct", "k2", "gain_se", "alignment", "uniformity"):
        assert columns[name][last] == pytest.approx(whole[name][last], rel=1e-5), name


def test_a_seed_races_the_same_alone_and_with_others(source, raced_here):
    rounds = rounds_of(RACE, n_classes=6)
    alone = Source(source.encoder, source.image_features, source.labels, {2: SEEDS[2]}, source.template, NAMES)
    both, own = raced_here, run(alone, rounds)
    assert both["n_classes"][1].tolist() == own["n_classes"][0].tolist()
    assert both["n_correct"][1].tolist() == own["n_correct"][0].tolist()


def test_rounds_have_nested_shares_of_the_classes_and_at_least_two():
    rounds = rounds_of([RacingRound(classes=0.01, keep=90), RacingRound(classes=0.5, keep=9)], n_classes=20)
    assert [(len(r.classes), r.keep) for r in rounds] == [(2, 90), (10, 9), (20, None)]
    assert set(rounds[0].classes) < set(rounds[1].classes) < set(rounds[2].classes)
    assert rounds == rounds_of([RacingRound(classes=0.01, keep=90), RacingRound(classes=0.5, keep=9)], n_classes=20)


def test_rounds_with_the_same_classes_become_one():
    race_of_two = [RacingRound(classes=0.1, keep=90), RacingRound(classes=0.3, keep=9)]
    assert [(len(r.classes), r.keep) for r in rounds_of(race_of_two, n_classes=7)] == [(2, 9), (7, None)]
    assert [(len(r.classes), r.keep) for r in rounds_of(race_of_two, n_classes=2)] == [(2, None)]


def test_a_part_of_the_source_has_the_images_of_its_classes(source):
    part = part_of(source, (1, 4))
    chosen = [i for i in range(90) if int(source.labels[i]) in (1, 4)]
    assert torch.equal(part.image_features, source.image_features[chosen])
    assert part.labels.tolist() == [(1, 4).index(int(source.labels[i])) for i in chosen]
    assert part.class_names == ["blue dog", "tree"]
    for seed, index in SEEDS.items():
        assert [chosen[i] for i in part.subsets[seed].tolist()] == [i for i in index.tolist() if i in chosen]
    assert part_of(source, range(6)) is source


def test_rounds_must_narrow():
    for second in ({"classes": 0.2, "keep": 5}, {"classes": 0.5, "keep": 20}):
        with pytest.raises(ValidationError, match="more classes than the one before it, and keep fewer candidates"):
            RacingParams(words=[{"classes": 0.2, "keep": 20}, second])


# ------------------------------------------------------------------------------------------------------------- cost


def test_every_round_costs_its_candidates_times_its_classes(source, raced_here):
    rounds, columns = rounds_of(RACE, n_classes=6), raced_here
    together, alone = racing_cost(source, POOL, rounds, n_classes=columns["n_classes"], period=False)
    for k in range(2):
        expected = NOTHING
        for classes in (2, 4, 6):
            left = [text for text, n in zip(POOL, columns["n_classes"][k], strict=True) if text and n >= classes]
            expected += cost_of(left, period=False, source=part_of(source, range(classes)))
        assert alone[k] == expected
        assert alone[k].tokens <= together.tokens <= sum(one.tokens for one in alone)
    assert racing_cost(source, POOL, rounds_of([], n_classes=6), n_classes=np.full((2, 25), 6), period=False) == (
        (whole := cost_of(POOL[1:], period=False, source=source)),
        [whole, whole],
    )


def test_the_images_are_those_of_the_rounds_classes(source, raced_here):
    for round_ in rounds_of(RACE, n_classes=6):
        for k, index in enumerate(SEEDS.values()):
            inside = sum(int(source.labels[i]) in round_.classes for i in index.tolist())
            last = raced_here["n_classes"][k] == len(round_.classes)
            assert last.any()
            assert set(raced_here["n_images"][k, last].tolist()) == {inside}


# ------------------------------------------------------------------------------------------------------------ soups


def raced() -> Ranked:
    """Five words: two went through all rounds, and one of the others got further."""
    return ranked(
        ["", "a", "b", "c", "d", "e"],
        n_correct=np.array([9, 50, 5, 7, 60, 70]),
        log_likelihood=-np.arange(6.0),
        period=False,
        cost=Cost(1, 1, 1),
        n_classes=np.array([6, 2, 6, 6, 4, 2]),
    )


def define(**soup: object) -> SoupParams:
    return TypeAdapter(SoupParams).validate_python({"pool": "words", "m": 2, **soup})


def test_finalists_rank_first_by_count_then_others_by_number_of_classes():
    assert (raced().texts, raced().full) == (["c", "b", "d", "a", "e"], 2)
    assert raced().finalists().texts == ["c", "b"]
    plain = ranked(["a", "b"], n_correct=np.array([1, 2]), log_likelihood=np.zeros(2), period=False, cost=NOTHING)
    assert (plain.texts, plain.full) == (["b", "a"], None)
    assert plain.finalists() is plain


def test_soups_use_finalists_only(source):
    for definition in (define(kind="greedy"), define(kind="top", k1=2, rank_by="count")):
        assert Search(definition, raced(), source, 1).ranked.texts == ["c", "b"]
    with pytest.raises(PoolError, match=r"k1 is 3 but 2 of the pool words went through all rounds of score.racing"):
        Search(define(kind="top", k1=3, rank_by="count"), raced(), source, 1).part(0)


def test_a_sample_of_the_whole_pool_needs_no_finalists(source):
    search = Search(define(kind="sample", k1=None, m=5), raced(), source, 1)
    soup = search.soup([search.part(0)], made_with={})
    assert search.ranked.texts == raced().texts
    assert soup.cost["search"] == NOTHING
    assert {member.text for member in soup.members if member.trace} == {"b", "c"}
    assert all(member.n_correct is not None for member in soup.members)
