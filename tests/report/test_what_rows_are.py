"""A soup, a method and a head in a few words."""

from __future__ import annotations

import pytest
from project import ROOT
from yaml_in_c import safe_load

from wsoup.core.modes import WEIGHINGS
from wsoup.params.section import parse
from wsoup.report.load import RunParams
from wsoup.report.what_rows_are import (
    about_head,
    about_method,
    about_soup,
    about_templates,
    about_texts,
    about_weights,
)
from wsoup.search.grow.kind import AnySoup
from wsoup.search.grow.sample import SampleSoup

PARAMS = parse(RunParams, safe_load((ROOT / "data/profiles/demo.yaml").read_text()), origin="demo.yaml")


@pytest.mark.parametrize(
    ("soup", "said"),
    [
        ("word", "Algorithm 2: chains of words"),
        ("descriptor", "Algorithm 1: descriptors chosen greedily"),
        ("top", "the 8 best single words of the ranking"),
        ("sample", "64 words at random from the top 1,000"),
        ("held_out", "words ranked on half of the images, kept on the rest"),
    ],
)
def test_each_soup_of_the_toy_world_is_said(soup, said):
    assert about_soup(PARAMS.soups[soup]) == said


def test_a_sample_of_the_whole_pool_and_a_kind_that_somebody_added():
    assert about_soup(SampleSoup(kind="sample", pool="words", m=4, k1=None)) == "4 words at random"
    assert about_soup(AnySoup(kind="shortest", pool="words", m=4)) == "shortest of words"


def test_what_was_trained_and_on_which_texts():
    methods = PARAMS.finetune.methods
    assert about_method(methods["coop"]) == "prompt tuned on the class name"
    assert about_method(methods["coop_diverse"]) == "prompt tuned on the word soup, diversity loss"
    assert about_head(shots=16) == "from at most 16 labelled images a class; these classes only"
    assert about_texts("cupl", template="a photo of a {}.") == "whole sentences of each class"
    assert about_texts("class_name", template="a photo of a {}.") == "a photo of a {}."


@pytest.mark.parametrize("way", WEIGHINGS)
def test_each_way_of_weighing_texts_is_said(way):
    assert about_weights(way).startswith("weighed ")


def test_rows_of_templates_say_where_they_are_from():
    raw = safe_load((ROOT / "data/profiles/demo.yaml").read_text())
    raw["evaluate"]["templates"] = {"openai7": "openai7", "mine": "mine.txt"}
    raw["datasets"]["counts"]["templates"] = "counts.txt"
    params = parse(RunParams, raw, origin="demo.yaml")
    rows = {row.label: about_templates(row.key, params=params) for row in params.template_rows}
    assert rows == {
        "OpenAI's 7 templates": "chosen by OpenAI from the 80, on ImageNet",
        "Templates mine": "mine.txt",
        "Templates of each dataset": "as 1 of 8 datasets bring them, of 7 without any the template alone",
    }
