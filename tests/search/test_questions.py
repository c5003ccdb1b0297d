"""Questions for a language model, and its answers in the forms in which they come back."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from wsoup.base.errors import PoolError
from wsoup.cli.app import app
from wsoup.search.candidates.questions import AT_ONCE, STYLES, read_answer, requests

CLASSES = ["red fox", "oak"]
EXPECTED = {"red fox": ["a bushy tail", "orange fur"], "oak": ["lobed leaves"]}
ANSWERS = {
    "JSON": json.dumps(EXPECTED),
    "fenced": f"Here you are:\n\n```json\n{json.dumps(EXPECTED, indent=1)}\n```\nAnything else?",
    "around": f"Sure! {json.dumps(EXPECTED)} I hope that this helps.",
    "other spelling": json.dumps({"Red_Fox": EXPECTED["red fox"], "OAK": EXPECTED["oak"]}),
    "one text": json.dumps({"red fox": "a bushy tail\norange fur", "oak": "lobed leaves"}),
    "bullets": (
        "Here are the features that you asked for, class by class:\n\n"
        "Red fox:\n- a bushy tail\n- orange fur\n\nOak\n* lobed leaves\n"
    ),
    "numbers": "1. **red fox**\n   1. a bushy tail\n   2) orange fur\n2. **oak**\n   - lobed leaves\n",
    "headings": "## red fox\n\n• a bushy tail\n• orange fur\n\n## oak\n\n– lobed leaves\n",
}


@pytest.mark.parametrize("form", ANSWERS)
def test_an_answer_is_read_in_the_form_in_which_it_comes(form):
    answer = read_answer([ANSWERS[form]], class_names=CLASSES, origin="answer.txt")
    assert answer.texts == EXPECTED
    assert answer.unknown == []


def test_several_answers_are_joined_and_keys_of_no_class_are_named():
    first, second = json.dumps({"oak": ["a", "b"], "elm": ["c"]}), json.dumps({"oak": ["b"], "red fox": ["d"]})
    answer = read_answer([first, second], class_names=CLASSES, origin="two files")
    assert answer.texts == {"red fox": ["d"], "oak": ["a", "b"]}
    assert answer.unknown == ["elm"]


@pytest.mark.parametrize("content", ["", "no", "[]", '{"oak": ["a"]', '{"oak": []}', "oak\nred fox\n", '{"oak": [1]}'])
def test_classes_without_texts_are_named(content):
    with pytest.raises(PoolError, match=r"answer: no texts for [12] of 2 classes: 'red fox'") as raised:
        read_answer([content], class_names=CLASSES, origin="answer")
    assert "\n" not in str(raised.value)


def test_requests_have_every_class_once_and_the_form_of_the_answer():
    names = [f"thing {i}" for i in range(AT_ONCE + 1)]
    for style in STYLES.values():
        first, second = requests(names, style=style)
        assert "thing 0" in first
        assert f"thing {AT_ONCE}" not in first
        assert style.questions[0].format("CLASS") in second
        assert json.loads(second[second.index("{") :]) == {f"thing {AT_ONCE}": ["...", "..."]}


def test_the_commands_ask_and_read(in_tmp):
    (in_tmp / "names.txt").write_text("fox\tred fox\noak\n")
    asked = CliRunner().invoke(app, ["texts", "ask", "--classes", "names.txt", "--style", "descriptors"])
    assert asked.exit_code == 0, asked.output
    assert "What are useful visual features for distinguishing a CLASS in a photo?" in asked.output
    (in_tmp / "answer.txt").write_text(ANSWERS["bullets"])
    read = CliRunner().invoke(app, ["texts", "read", "answer.txt", "--classes", "names.txt", "--out", "texts.json"])
    assert read.exit_code == 0, read.output
    assert read.output == "texts.json: 3 texts of 2 classes\n"
    assert json.loads((in_tmp / "texts.json").read_text()) == EXPECTED
