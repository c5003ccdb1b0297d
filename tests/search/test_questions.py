"""Questions for a language model, and its answers in the forms in which they come back."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from wsoup.base.errors import PoolError
from wsoup.cli.app import app
from wsoup.search.candidates.questions import AT_ONCE, STYLES, requests
from wsoup.search.candidates.replies import read_answer

CLASSES = ["red fox", "oak"]
EXPECTED = {"red fox": ["a bushy tail", "orange fur"], "oak": ["lobed leaves"]}
ANSWERS = {
    "JSON": json.dumps(EXPECTED),
    "fenced": f"Here you are:\n\n```json\n{json.dumps(EXPECTED, indent=1)}\n```\nAnything else?",
    "two fences": "First:\n"
    + "\nThen:\n".join(f"```json\n{json.dumps({name: EXPECTED[name]})}\n```" for name in CLASSES),
    "a fence of words": f"```\nred fox, oak\n```\n```json\n{json.dumps(EXPECTED)}\n```",
    "around": f"Sure! {json.dumps(EXPECTED)} I hope that this helps.",
    "other spelling": json.dumps({"Red_Fox": EXPECTED["red fox"], "OAK": EXPECTED["oak"]}),
    "one text": json.dumps({"red fox": "a bushy tail\norange fur", "oak": "lobed leaves"}),
    "bullets": (
        "Here are the features that you asked for, class by class:\n\n"
        "Red fox:\n- a bushy tail\n- orange fur\n\nOak\n* lobed leaves\n"
    ),
    "numbers": "1. **red fox**\n   1. a bushy tail\n   2) orange fur\n2. **oak**\n   - lobed leaves\n",
    "marks": ('red fox\n- **a bushy** `tail`\n- "orange fur"\noak\n- [lobed](http://x) *leaves*\n'),
    "headings": "## red fox\n\n• a bushy tail\n• orange fur\n\n## oak\n\n– lobed leaves\n",
}


@pytest.mark.parametrize("form", ANSWERS)
def test_an_answer_is_read_in_the_form_in_which_it_comes(form):
    answer = read_answer({"answer.txt": ANSWERS[form]}, class_names=CLASSES)
    assert answer.texts == EXPECTED
    assert answer.unknown == []


def test_several_answers_are_joined_and_keys_of_no_class_are_named():
    first, second = json.dumps({"oak": ["a", "b"], "elm": ["c"]}), json.dumps({"oak": ["b"], "red fox": ["d"]})
    answer = read_answer({"1.txt": first, "2.txt": second}, class_names=CLASSES)
    assert answer.texts == {"red fox": ["d"], "oak": ["a", "b"]}
    assert answer.unknown == ["elm"]


@pytest.mark.parametrize("content", ["", "no", "[]", "{}", '{"oak": [" "]}', "oak\nred fox\n"])
def test_classes_without_texts_are_named(content):
    with pytest.raises(PoolError, match=r"answer: no texts for [12] of 2 classes: 'red fox'") as raised:
        read_answer({"answer": content}, class_names=CLASSES)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"oak": ["a"], "oak": ["b"]}', "a.txt: 'oak' appears twice; expected"),
        ('{"oak": ["a", null]}', "a.txt: class 'oak' has None, which is no text"),
        ('{"oak": ["a", ["b"]]}', "a.txt: class 'oak' has ['b'], which is no text"),
        ('{"OAK": {"a": "b"}}', "a.txt: class 'oak' has {'a': 'b'}; expected a list of texts"),
        ('{"oak": ["..."]}', "a.txt: class 'oak' has '...', the placeholder of the question"),
        ('{"oak": ["a\\u0000b"]}', "a.txt: class 'oak' has 'a\\x00b', with a character that cannot be shown"),
        ('{"oak": ["\\ud83d"]}', "a.txt: class 'oak' has '\\ud83d', with a character that cannot be shown"),
        ('Sure!\n{"oak": ["a"],\n"red fox": ["b', "a.txt: not JSON, line 3: Unterminated string"),
        ('```json\n{"oak": ["a",]}\n```', "a.txt: not JSON, line 2: "),
        ('{"oak": ["a"], // nice\n"red fox": []}', "a.txt: not JSON, line 1: "),
        ("{“oak”: [“a”]}", "a.txt: not JSON, line 1: "),
    ],
)
def test_an_answer_that_is_broken_is_refused_with_its_place(content, message):
    with pytest.raises(PoolError) as raised:
        read_answer({"a.txt": content}, class_names=CLASSES)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", ["fox\n- oak\n- red\noak\n- lobed\n", "1. fox\n - oak\n - red\n2. oak\n - lobed\n"])
def test_an_item_that_names_a_class_is_an_item_below_other_headings(content):
    answer = read_answer({"a.txt": content}, class_names=["fox", "oak"])
    assert answer.texts == {"fox": ["oak", "red"], "oak": ["lobed"]}


def test_a_class_in_two_unicode_forms_is_asked_about_once_and_found():
    forms = ["caf\u00e9", "cafe\u0301"]
    (request,) = requests(forms, style=STYLES["descriptors"])
    assert list(json.loads(request[request.index("{") :])) == forms[:1]
    answer = read_answer({"a.txt": json.dumps({forms[1]: ["cups"]})}, class_names=forms)
    assert answer.texts == {form: ["cups"] for form in forms}


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
