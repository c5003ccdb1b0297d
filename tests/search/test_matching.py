"""Keys of a file of texts and class names: what is proposed, written, read again, and never taken in silence."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from wsoup.base.errors import PoolError
from wsoup.cli.app import app
from wsoup.params.inputs import ClassTextFile
from wsoup.search.candidates.gpt_classes import keys_in, texts_of
from wsoup.search.candidates.matching import Doubt, Pairs, as_text, in_words, proposed_pairs, words_of

CLASSES = ["2000 AM General Hummer SUV", "outdoor market", "crocodile head", "red_fox", "ball moss", "snoopy"]
KEYS = [
    "AM General Hummer SUV 2000",
    "market (outdoor)",
    "head of a crocodile",
    "Red Fox",
    "air plant",
    "snoopy (cartoon beagle)",
]


def test_same_words_are_certain_and_all_else_is_doubtful():
    pairs = proposed_pairs(KEYS, class_names=CLASSES)
    assert pairs.by_itself == ["red_fox"]
    assert pairs.certain == dict(zip(CLASSES[:3], KEYS[:3], strict=True))
    assert [doubt.class_name for doubt in pairs.doubtful] == ["ball moss", "snoopy"]
    assert pairs.doubtful[1].nearest[0] == "snoopy (cartoon beagle)"


def test_two_classes_or_keys_of_the_same_words_are_doubtful():
    pairs = proposed_pairs(["boat house"], class_names=["house of boats", "house boat"])
    assert pairs.certain == {}
    assert len(pairs.doubtful) == 2
    assert proposed_pairs(["a b c", "c b a"], class_names=["b c a"]).certain == {}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("pink-yellow dahlia", "pink and yellow dahlia"),
        ("Car side", "side of a car"),
        ("cherries", "cherry"),
        ("Café_Bar", "bar, cafe\u0301"),
    ],
)
def test_names_of_the_same_words(first, second):
    assert words_of(first) == words_of(second)


def test_signs_tell_names_apart():
    assert words_of("c++") != words_of("c#") != words_of("c")


def test_what_is_proposed_is_read_after_decisions(in_tmp):
    pairs = proposed_pairs(KEYS, class_names=CLASSES)
    text = as_text(pairs, file="texts.json")
    (in_tmp / "pairs.txt").write_text(text)
    assert keys_in("pairs.txt", class_names=CLASSES, keys=KEYS) == pairs.certain
    decided = text.replace("# snoopy (cartoon beagle)", "snoopy (cartoon beagle)").replace("# air plant", "air plant")
    (in_tmp / "pairs.txt").write_text(decided)
    (in_tmp / "texts.json").write_text(json.dumps({key: [f"A {key}."] for key in KEYS}))
    given = ClassTextFile("sentences", "texts.json", "sentences", {}, "pairs.txt")
    texts = texts_of(given, class_names=CLASSES)
    assert [of_class[0] for of_class in texts.values()] == [f"A {key}." for key in KEYS]
    assert in_words(pairs) == (
        "1 of 6 classes need no line, 3 have one, 2 are doubtful ('ball moss', 'snoopy'): decide on them in the file"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("air plant ball moss\n", "line 1: 'air plant ball moss' must be a key, a tab and a class"),
        ("air plant\t\n", "must be a key, a tab and a class"),
        ("# a\nair plant\tball mos\n", "line 2: 'ball mos' is no class of this dataset; did you mean 'ball moss'"),
        ("air plant\tsnoopy\nRed Fox\tsnoopy\n", "line 2: class 'snoopy' has the key 'air plant' already"),
    ],
)
def test_pairs_are_checked(in_tmp, text, error):
    (in_tmp / "pairs.txt").write_text(text)
    with pytest.raises(PoolError, match=error):
        keys_in("pairs.txt", class_names=CLASSES, keys=KEYS)


def test_a_key_that_begins_with_a_number_sign_is_no_comment(in_tmp):
    keys = ["#1 shoe", "## two", "\\#3", "#3", "fir tree"]
    names = ["shoe #1", "two", "3", "three", "tree of fir"]
    by_name = dict(zip(names, keys, strict=True))
    (in_tmp / "pairs.txt").write_text(as_text(Pairs([], by_name, []), file="texts.json"))
    assert keys_in("pairs.txt", class_names=names, keys=keys) == by_name
    doubtful = as_text(Pairs([], {}, [Doubt("two", ["## two", "#1 shoe"])]), file="texts.json")
    (in_tmp / "pairs.txt").write_text(doubtful.replace("# \\##", "\\##"))
    assert keys_in("pairs.txt", class_names=names, keys=keys) == {"two": "## two"}


def test_pairs_of_another_file_are_left_out(in_tmp):
    (in_tmp / "pairs.txt").write_text("air plant\tball moss\nmoss ball\tball moss\n")
    assert keys_in("pairs.txt", class_names=CLASSES, keys=["moss ball"]) == {"ball moss": "moss ball"}


def test_the_command_writes_the_pairs(in_tmp):
    (in_tmp / "texts.json").write_text(json.dumps({key: ["A text."] for key in KEYS}))
    (in_tmp / "classes.txt").write_text("\n".join(CLASSES))
    run = CliRunner().invoke(app, ["texts", "match", "texts.json", "--classes", "classes.txt", "--out", "pairs.txt"])
    assert run.exit_code == 0, run.output
    assert run.output.startswith("pairs.txt: 1 of 6 classes need no line, 3 have one, 2 are doubtful")
    assert keys_in("pairs.txt", class_names=CLASSES, keys=KEYS).keys() == set(CLASSES[:3])
