"""Every sentence of the answer says what its own verdicts say: better, worse, noise, equal, one image, no place."""

from __future__ import annotations

import itertools
import re

import numpy as np

from wsoup.report.answer import PlaceAnswer, RunAnswer
from wsoup.report.sentences import answer, printed, record_accuracy, record_sentences
from wsoup.statistics.noise import Verdict, compare_images, judge

NAMES = {
    "class_name": "class name",
    "templates": "80 templates",
    "soup": "word soup",
    "finetuned": "coop, finetuned",
    "head": "head",
}
RIGHT = {"better": (160, 100), "worse": (100, 160), "noise": (103, 100), "equal": (100, 100)}
"""Of 200 images: the first row's, and the other's."""
PLACES = ({"source"}, {"source", "dg"}, {"source", "xd", "dg"})
PAIRS = (("soup", "class_name"), ("soup", "templates"), ("finetuned", "soup"), ("head", "soup"))


def verdict(kind: str) -> Verdict:
    if kind == "one image":
        rows = [np.array([[True]]), np.array([[False]])]
    else:
        rows = [np.arange(200)[None] < n for n in RIGHT[kind]]
    first, second = ({"photos": hits} for hits in rows)
    (judged,) = judge([compare_images(first, second).fixed], confidence=0.95)
    return judged


def run_of(kinds: dict[str, str]) -> RunAnswer:
    """A run whose every comparison on a place is of one kind; the head has no place XD."""
    answers = {}
    for role, kind in kinds.items():
        there = [pair for pair in PAIRS if role != "xd" or pair[0] != "head"]
        rows = [key for key in NAMES if role != "xd" or key != "head"]
        answers[role] = PlaceAnswer(dict.fromkeys(rows, 50.0), {pair: verdict(kind) for pair in there}, chance=None)
    return RunAnswer("word", "coop", "word", None, "centroid", NAMES, answers, [], {}, right={}, confidence=0.95)


KINDS = ("better", "worse", "noise", "equal", "one image")


def test_words_and_numbers_of_every_place_agree():
    """The source has one kind of verdict, the targets another: no word may be the source's where a figure is DG's."""
    for places, kind, other in itertools.product(PLACES, KINDS, KINDS):
        expect_words_that_agree(places, kind=kind, other=other)


def expect_words_that_agree(places, *, kind, other):
    kinds = {role: (kind if role == "source" else other) for role in ("source", "xd", "dg") if role in places}
    said = {part.about: part.text for part in answer(run_of(kinds))}
    assert set(said) == {*places, "finetuned", "head"}
    for role, its_kind in kinds.items():
        sentences = said[role].split(". ", maxsplit=1)[1]
        assert sentences.count(CLAIMS[its_kind]) == 2, "the class name, the templates"
        assert sum(sentences.count(claim) for claim in set(CLAIMS.values())) == 2
    for about in ("finetuned", "head"):
        parts = said[about].split(": ", maxsplit=1)[1].split("; ")
        roles = [role for role in kinds if role != "xd" or about == "finetuned"]
        assert len(parts) == len(roles)
        for part, role in zip(parts, roles, strict=True):
            assert part.startswith({"source": "source ", "xd": "XD ", "dg": "DG "}[role])
            assert agrees(part, verdict(kinds[role])), part


CLAIMS = {
    "better": "It is better than the ",
    "worse": " better than the soup by ",
    "noise": "which may be noise.",
    "one image": "which may be noise.",
    "equal": " are equal: 0.0 points ",
}


def agrees(text: str, gain: Verdict) -> bool:
    """Whether ``+1.8 [+0.5, +3.1], better`` is what a verdict says."""
    if gain.mean == 0:
        return "0.0, no difference" in text
    mean = f"{gain.mean:+.1f}"
    if gain.word == "noise":
        return f"{mean} [" in text and ", no sure difference" in text
    low, high = (float(end) for end in re.search(r"\[(.+), (.+)\]", text).groups())
    return f"{mean} [" in text and gain.word in text and (low > 0) == (gain.mean > 0) == (high > 0)


def test_a_run_without_targets_method_or_head_has_one_sentence():
    place = PlaceAnswer({"class_name": 40.0, "soup": 50.0}, {("soup", "class_name"): verdict("better")}, chance=None)
    names = {key: NAMES[key] for key in ("class_name", "soup")}
    judged = RunAnswer(
        "word", None, None, None, "centroid", names, {"source": place}, [], {}, right={}, confidence=0.95
    )
    (sentence,) = record_sentences(judged)
    assert sentence == (
        "Source. The word soup gets 50.0 %. It is better than the class name by 30.0 points [23.6, 36.4]."
    )
    lines = printed(record_sentences(judged), record_accuracy(judged))
    assert lines[-3:] == [f"per cent{'source':>26}", f"class name{'40.00':>24}", f"word soup{'50.00':>25}"]
