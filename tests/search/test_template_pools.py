"""Pools of templates: from files as people have them, ranked and searched as whole prompts by every kind of soup."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from api_world import NAMES, photos
from soup_cases import KINDS, define

from wsoup.base.errors import MissingError, ParamsError, PoolError
from wsoup.core.member import NOTHING
from wsoup.core.prompts import is_template
from wsoup.params.section import parse
from wsoup.search.candidates import pools
from wsoup.search.candidates.templates import SEVEN, templates_of
from wsoup.search.grow.search import Search
from wsoup.search.pools.lists import read_pool, write_pool
from wsoup.search.pools.params import CandidatesParams
from wsoup.search.rank.meter import cost_of
from wsoup.search.rank.ranking import ranked
from wsoup.search.rank.source import Source
from wsoup.search.rank.statistics import right_by_name, scores


def params(**pool: object) -> CandidatesParams:
    given = {
        "pools": ["words", "descriptors", "mine"],
        "words": {"path": None, "count": 10, "period": False},
        "descriptors": {"paths": [], "period": True},
        "mine": {"paths": ["openai80"], "period": True, "form": "template", **pool},
        "watch": ".",
    }
    return parse(CandidatesParams, given, origin="params.yaml")


@pytest.fixture
def source(tiny_encoder) -> Source:
    images = photos(tiny_encoder)
    everything = {1: torch.arange(len(images.labels))}
    return Source(tiny_encoder, images.features, images.labels, everything, "a photo of a {}.", NAMES)


def test_a_file_has_one_template_a_line(in_tmp):
    (in_tmp / "mine.txt").write_text("a photo of a {}.\n\n art of  the {c}. \n{}\n")
    assert templates_of("mine.txt") == ["a photo of a {}.", "art of the {}.", "{}"]


def test_clip_benchmarks_file_of_one_dataset_is_taken(in_tmp):
    (in_tmp / "t.json").write_text(json.dumps({"imagenet1k": ["a photo of {c}.", "art of {c}."]}))
    assert templates_of("t.json") == ["a photo of {}.", "art of {}."]
    (in_tmp / "list.json").write_text(json.dumps(["a {}"]))
    assert templates_of("list.json") == ["a {}"]


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.txt", "a {}\na photo\n", r"a\.txt, template 2: 'a photo' must hold exactly one placeholder"),
        ("a.txt", "{} and {c}\n", r"template 1: '\{\} and \{c\}' must hold exactly one"),
        ("a.txt", "a {}\na {}\n", r"a\.txt holds 'a \{\}' more than once \(templates 1, 2\)"),
        ("a.txt", 'lambda c: f"a {c}.",\n', r"a\.txt, template 1: 'lambda c: f\"a \{c\}.\",' is code; expected one"),
        ("a.txt", "a {}\n'b {}.',\n", r"a\.txt, template 2: .* is code"),
        ("a.txt", "\n", r"a\.txt is empty"),
        ("a.json", "{", "is not JSON"),
        ("a.json", '{"a": ["a {}"], "b": ["b {}"]}', "expected a list of templates, or one list under"),
    ],
)
def test_files_that_are_no_lists_of_templates_are_refused(in_tmp, name, content, text):
    (in_tmp / name).write_text(content)
    with pytest.raises(PoolError, match=text):
        templates_of(name)


def test_a_name_that_is_no_file_is_refused_with_the_lists_that_there_are(in_tmp):
    with pytest.raises(MissingError, match="openai8 does not exist; name a file of templates, or openai80 or openai7"):
        templates_of("openai8")


def test_the_lists_that_come_with_wsoup():
    assert len(set(pools.openai80())) == 80
    assert all(map(is_template, pools.openai80()))
    assert set(SEVEN) <= set(pools.openai80())
    assert pools.texts_of_pool(params(), "mine") == pools.openai80()
    assert pools.texts_of_pool(params(paths=["openai7", "openai80"]), "mine")[:7] == list(SEVEN)


def test_a_pool_on_disk_keeps_its_templates(in_tmp):
    write_pool("pool.txt", SEVEN)
    assert read_pool("pool.txt") == list(SEVEN)


@pytest.mark.parametrize(
    ("pool", "text"),
    [
        ({"period": False}, "period: false does not go with form: template"),
        ({"form": "templates"}, "form: 'templates' is not valid"),
        ({"paths": []}, r"mine.paths is \[\]"),
    ],
)
def test_a_pool_of_templates_is_checked(pool, text):
    with pytest.raises(ParamsError, match=text):
        params(**pool)


def test_a_template_among_other_texts_is_refused(in_tmp):
    (in_tmp / "mixed.txt").write_text("which is red\nart of the {}.\n")
    with pytest.raises(PoolError, match=r"mixed\.txt: 'art of the \{\}\.' holds \{\} .* with form: template"):
        pools.texts_of_pool(params(paths=["mixed.txt"], form="ending"), "mine")


def test_templates_are_counted_as_whole_prompts_whatever_the_period(source):
    texts = ["a photo of a {}", "art of the {}.", "", "which is red"]
    images = source.images()
    baseline = right_by_name(source, images=images, period=True)
    counted = scores(source, texts, images=images, baseline_right=baseline, period=True)["n_correct"][0]
    whole = ["a photo of a {}", "art of the {}.", "a photo of a {}.", "a photo of a {}, which is red."]
    for text, n_correct in zip(whole, counted, strict=True):
        classifier = source.encoder.encode_texts([text.replace("{}", name) for name in NAMES])
        assert int(((source.image_features @ classifier.T).argmax(1) == source.labels).sum()) == n_correct
    without = scores(source, texts[:2], images=images, baseline_right=baseline, period=False)["n_correct"][0]
    np.testing.assert_array_equal(without, counted[:2])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_soup_but_chains_selects_templates(source, kind):
    pool = pools.openai80()[:12]
    images = source.images()
    baseline = right_by_name(source, images=images, period=True)
    columns = scores(source, pool, images=images, baseline_right=baseline, period=True)
    (n_correct,), (k2,) = columns["n_correct"], columns["k2"]
    ranking = ranked(pool, n_correct=n_correct, log_likelihood=k2, period=True, cost=NOTHING)
    search = Search(define(kind), ranking, source, 1)
    if kind == "chains":
        with pytest.raises(PoolError, match="no word can follow; use another kind, such as greedy"):
            search.part(0)
        return
    soup = search.soup([search.part(0)], made_with={})
    assert set(soup.texts) <= set(pool)
    assert soup.templates() == soup.texts


def test_the_cost_of_templates_counts_each_token_that_must_be_computed(source):
    """Two beginnings of 4 and 5 tokens that share 3, then each class name and the end of text."""
    cost = cost_of(["a photo of a {}", "a photo of the old {}"], period=True, source=source)
    assert cost.texts == 2
    heads = 3 + 1 + 2
    assert cost.tokens == heads + 2 * len(NAMES) * 2
    together = cost_of(["a photo of a {}", "which is red"], period=True, source=source)
    assert together.texts == 2
