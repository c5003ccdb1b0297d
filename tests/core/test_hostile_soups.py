"""Soup files from elsewhere: within bounds or refused in one line; exports of them are data, never code."""

from __future__ import annotations

import copy
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_cli import run
from said import unsaid

from wsoup.base.errors import LONGEST, WsoupError
from wsoup.cli.formats import FORMATS
from wsoup.core.soup import Soup

MEMBER = {"text": "sharp", "n_correct": 1, "n_images": 2, "trace": [{"added": "sharp", "n_correct": 1}]}
COST = {"texts": 1, "tokens": 2, "flops": None}
GOOD: dict[str, Any] = {
    "kind": "greedy",
    "seed": 1,
    "template": "a {}.",
    "encoder": {"model": "m", "pretrained": "p", "precision": "fp32"},
    "members": [MEMBER],
    "made_with": {"torch": "2"},
    "class_name_correct": 1,
    "cost": {"search": COST},
}
BEYOND: list[tuple[str, Any]] = [
    ("class_name_weight", 2.0),
    *(("class_name_correct", value) for value in ("x", [1], -1, True, 10**400, 1.5)),
    *(("seed", value) for value in ("1", -1, True, 2**63, 10**4000, 1.5)),
    *(("kind", value) for value in (3, "x" * 10_001, "\0", "\ud800")),
    *(("template", value) for value in ("a {} " + "x " * 10_000, "a {} \ud800", "a {} \0", "{0}", "", "{} {}")),
    *((key, None) for key in ("kind", "template", "encoder", "members")),
    *(("encoder", value) for value in ("ViT", {})),
    *(("members", value) for value in ({"text": "x"}, ["x"], [None], [{"trace": []}], [{"text": "x"}])),
    *(("cost", value) for value in ([], {"search": 3}, {"search": {"x": 1}})),
    *(("encoder", {"model": value, "pretrained": "p"}) for value in (3, None, ["x"], {}, "\ud800", "m" * 10_001)),
    *(("encoder", {"model": "m", "pretrained": value}) for value in (3, ["x"], {}, "\0")),
    *(("made_with", value) for value in (3, [], {"torch": "\ud800"})),
    *(("cost", {"search": {**COST, "texts": value}}) for value in ("x", [1], -1, 1.5, True, 10**31)),
    *(("members", [{**MEMBER, "text": value}]) for value in ("\ud800", "a\0b", "x" * 10_001, None, 3)),
    *(("members", [{**MEMBER, "n_correct": value}]) for value in (3, -1, True, 1.5, 10**400, "1")),
    *(("members", [{**MEMBER, "trace": value}]) for value in (None, 3, {}, ["x"], [{}], [{"added": "x"}], [[1]])),
    ("members", [{"text": "x", "trace": []}] * 10_001),
]


def refusal(path: Path) -> str | None:
    """The error of loading a soup file, one printable line of bounded length; None if it loads."""
    try:
        Soup.load(path)
    except WsoupError as error:
        text = str(error)
        assert text.isprintable()
        assert len(text) <= LONGEST + len(str(path))
        return text
    return None


def write(folder: Path, value: Any) -> Path:
    path = folder / "soup.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_valid_soup_is_read(tmp_path: Path) -> None:
    assert refusal(write(tmp_path, GOOD)) is None
    required = ("kind", "seed", "template", "encoder", "members")
    assert refusal(write(tmp_path, {key: GOOD[key] for key in required})) is None


def test_values_out_of_bounds_are_refused(tmp_path: Path) -> None:
    line = re.compile(r"soup\.json is not (a soup: |JSON \()")
    table = [({key: value}, line) for key, value in BEYOND]
    assert unsaid(table, lambda beyond: Soup.load(write(tmp_path, GOOD | beyond))) == []


NO_SOUPS = [
    (json.dumps({**GOOD, "class_name_correct": math.nan}), "is not JSON"),
    (json.dumps({**GOOD, "class_name_correct": -math.inf}), "is not JSON"),
    ("\ufeff" + json.dumps(GOOD), "is not JSON"),
    *((text, "is not JSON") for text in ("", "{", "<html>", "{} {}")),
    *((text, "is not a soup") for text in ("[]", "null", "3", "{}")),
    (json.dumps(GOOD)[:-1] + ', "x": ' + "[" * 100_000, "is not JSON"),
]


def test_ambiguous_or_invalid_json_is_refused(tmp_path: Path) -> None:
    assert unsaid(NO_SOUPS, lambda text: Soup.load(write(tmp_path, text))) == []


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_only_regular_files_are_read(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "soup.json")
    assert "expected a file" in str(refusal(tmp_path / "soup.json"))


# ------------------------------------------------------------------------------------------------------ exported

CODE = "x\nimport pathlib; pathlib.Path('ran').touch()\n"


@pytest.mark.parametrize("where", ["model", "pretrained", "kind", "text", "template"])
def test_exported_templates_execute_no_text_of_a_soup(in_tmp: Path, where: str) -> None:
    value = copy.deepcopy(GOOD)
    section = value if where in value else value["members"][0] if where == "text" else value["encoder"]
    section[where] = CODE + ("{}" if where == "template" else "")
    write(in_tmp, value)
    code, printed, _ = run("soup", "export", "soup.json", "--format", "open_clip")
    assert code == 0
    names: dict[str, Any] = {}
    exec(compile(printed, "templates.py", "exec"), names)
    assert len(names["templates"]) == 1
    assert not (in_tmp / "ran").exists()


def test_a_text_with_a_line_break_is_not_exported_as_text(in_tmp: Path) -> None:
    write(in_tmp, {**GOOD, "members": [{"text": "two\nlines", "trace": []}]})
    code, printed, errors = run("soup", "export", "soup.json", "--format", "text")
    assert (code, printed) == (1, "")
    assert "holds a line break" in errors


# --------------------------------------------------------------------------------------------------------- drawn

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
PLACES = [("members", 0, key) for key in MEMBER] + [("encoder", key) for key in ("model", "pretrained", "precision")]
PLACES += [(key,) for key in GOOD] + [("cost", "search", key) for key in COST] + [("members", 0, "trace", 0, "added")]


@given(place=st.sampled_from(PLACES), value=VALUES)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_for_any_field_of_a_soup(in_tmp: Path, place: tuple[Any, ...], value: Any) -> None:
    soup: Any = copy.deepcopy(GOOD)
    section = soup
    for key in place[:-1]:
        section = section[key]
    section[place[-1]] = value
    answered_or_refused(write(in_tmp, soup))


def answered_or_refused(path: Path) -> None:
    """Every command ends in its answer or in one line."""
    refusal(path)
    exports = (("export", "soup.json", "--format", form) for form in FORMATS)
    for command in (("show", "soup.json"), *exports):
        code, _, errors = run("soup", *command)
        assert code in (0, 1)
        assert errors.count("\n") == code
        assert code == 0 or errors.startswith("error: ")
