"""Which rows an edited param feeds, for a run with two soups of its own pools, a curve, two methods and a head."""

from __future__ import annotations

from typing import Any

import pytest

from wsoup.report.fed import fed_rows
from wsoup.report.record import Record

PARAMS: dict[str, Any] = {
    "source": "photo",
    "datasets": {"photo": {}, "art": {}},
    "candidates": {"pools": ["words", "descriptors"]},
    "soups": {"word": {"pool": "words"}, "descriptor": {"pool": "descriptors"}, "word_curve": {"pool": "words"}},
    "finetune": {
        "iterations": 750,
        "methods": {"coop": {"soup": "class_name"}, "coop_diverse": {"soup": "word"}},
    },
    "heads": {"ridge": {"soup": "descriptor"}},
    "report": {"soup": "word", "method": "coop_diverse"},
}
RUN = Record(answer=[], params=PARAMS, soup="word", mode="centroid", members=[], rows={})
MAIN = ["word soup", "coop_diverse", "head ridge"]
DRAWN = ["random texts", "Waffle"]
OFFSETS = ["word soup, offsets", "descriptor soup, offsets"]
OF_SELECTION = [*MAIN, "descriptor soup", "coop"]
BY_CLASS = ["80 templates", "GPT centroids", "CuPL"]
CHAINS = ["random chains"]
EVERY = [*OF_SELECTION, "class name", *BY_CLASS, *DRAWN, *CHAINS, "texts of params.yaml"]
OF_WORDS = ["word soup", "coop_diverse"]
OF_DESCRIPTORS = ["head ridge", "descriptor soup"]


@pytest.mark.parametrize(
    ("param", "fed"),
    [
        ("encoder.model", EVERY),
        ("datasets.art.root", EVERY),
        ("embed.on_bad_image", EVERY),
        ("source", EVERY),
        ("fewshot.shots", [*OF_SELECTION, *CHAINS]),
        ("seeds", [*OF_SELECTION, *DRAWN, *CHAINS]),
        ("candidates.on_long_text", [*MAIN, "descriptor soup", *DRAWN, *CHAINS]),
        ("candidates.words.count", [*OF_WORDS, "Waffle", *CHAINS]),
        ("candidates.descriptors.paths", [*OF_DESCRIPTORS, *DRAWN]),
        ("soups.word.k0", [*OF_WORDS, *CHAINS]),
        ("soups.word_curve.m", MAIN),  # which feeds no row
        ("soups.descriptor.m", OF_DESCRIPTORS),
        ("finetune.iterations", ["coop_diverse", "coop"]),
        ("finetune.ema", ["coop_diverse", "coop"]),
        ("finetune.methods.coop.learning_rate", ["coop"]),
        ("heads.ridge.kind", ["head ridge"]),
        ("evaluate.offsets", OFFSETS),
        ("evaluate.texts", ["texts of params.yaml"]),
        ("evaluate.baseline_m", DRAWN),
        ("report.soup", ["word soup"]),
        ("report.mode", ["word soup"]),
        ("report.method", ["coop_diverse"]),
        ("report.gallery", MAIN),
    ],
)
def test_an_edited_param_feeds_the_rows_that_are_made_of_it(param, fed):
    """Those that the run is about come first; a param that feeds none leaves those."""
    titles = [row.title for row in fed_rows(RUN, changed=[param])]
    # A baseline that somebody adds is fed, too.
    assert [title for title in titles if title in {*EVERY, *OFFSETS}] == fed


def test_without_an_edit_the_rows_that_the_run_is_about_are_shown():
    assert [row.title for row in fed_rows(RUN, changed=[])] == MAIN
