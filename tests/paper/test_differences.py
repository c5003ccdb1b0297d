"""docs/notes/differences.md: what its brackets say of rows beside the paper's figures is what the report does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache
from typing import Any

import pytest
import yaml
from project import ROOT

from wsoup.check.whole import parse_params
from wsoup.paper import tables
from wsoup.paper.coverage import coverage, of_params
from wsoup.paper.settings import Settings, differing
from wsoup.profiles.paper import ENCODERS, Paper

DOC = (ROOT / "docs/notes/differences.md").read_text(encoding="utf-8")
BRACKETS = re.findall(r"\[((?:same|chance|key|marked)[^]]*)\]", DOC)
PAPER = Settings.of_paper()


@cache
def settings_of(**choices: Any) -> Settings:
    """Settings of a run with the authors' pools."""
    text = Paper("/data", **{"gpt_descriptors": "/gpt", "methods": "all", "fewshot_pickles": "/p", **choices}).text()
    run = of_params(parse_params(yaml.safe_load(text), origin="paper").model_dump(mode="json", by_alias=True))
    return replace(run, pools=PAPER.pools)


def marks_of(run: Settings) -> Iterator[str]:
    """Marks, by the run's settings, of all our rows beside one of the paper's."""
    theirs = [row for name in tables.TABLES for row in tables.rows(name) if row.row not in ("", "given_text")]
    for variant, row in dict.fromkeys((row.variant, row.row.partition("@")[0]) for row in theirs):
        yield from differing(run, paper=PAPER, variant=variant, row=row)


def changed(run: Settings, key: str) -> Settings:
    """The run with another value of a key, or of the first key below it, or with another pool."""
    pool = key.removeprefix("candidates.")
    if pool in run.pools:
        return replace(run, pools={**run.pools, pool: {"count": 3, "digest": "0" * 16}})
    other = None if key.endswith("fewshot_pickles") else "another"
    return replace(run, values={**run.values, [*run.below(key), key][0]: other})


def test_every_row_that_a_difference_affects_is_marked():
    """A named difference always marks its rows; a key marks them at any value but profile paper's."""
    parts = [part.split() for bracket in BRACKETS for part in bracket.split(";")]
    assert {name for kind, *names in parts if kind == "marked" for name in names} == set(PAPER.differs)
    run = settings_of()
    assert not list(marks_of(run))
    for key in (name for kind, *names in parts if kind == "key" for name in names):
        assert any(mark.startswith(key) for mark in marks_of(changed(run, key))), key


@pytest.mark.parametrize("name", PAPER.differs)
def test_rows_that_are_another_computation_are_always_marked(name):
    """In the list of every profile, even if nothing in params.yaml differs."""
    about = PAPER.differs[name]
    models = [model for model in ENCODERS if any(fnmatch(model, p) for p in about.get("encoders", ["ViT-B-16"]))]
    touched = [
        row
        for model in models
        for row in coverage(settings_of(encoder=model), table="all")
        if not row.missing
        and any(fnmatch(row.variant, pattern) for pattern in about.get("variants", "*"))
        and any(fnmatch(row.row, pattern) for pattern in about.get("rows", "*"))
    ]
    assert touched
    assert all((about["why"] in row.marks) == ("column" not in about) for row in touched)
