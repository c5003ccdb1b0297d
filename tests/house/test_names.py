"""Names in params.yaml reach no shell: no command contains an item, and invalid names are refused with the rule."""

from __future__ import annotations

import copy
import re

import pytest
from project import ROOT, Project
from said import unsaid
from yaml_in_c import safe_load

from wsoup.params.problems import NAME_RULE
from wsoup.pipeline.params import parse_params

ODD = [
    "$(touch x)",
    "a; touch x",
    "cats & dogs",
    "`touch x`",
    "${source}",
    "../up",
    "a/b",
    "a.b",
    "-a",
    "",
    "ä b",
    "a\n",
]
SECTIONS = {"datasets": "counts", "soups": "word", "finetune.methods": "ce"}


def renamed(raw: dict, section: str, name: str) -> dict:
    """The params with one more dataset, soup or method of this name."""
    raw = items = copy.deepcopy(raw)
    for key in section.split("."):
        items = items[key]
    items[name] = copy.deepcopy(next(reversed(items.values())))
    return raw


def test_an_invalid_name_is_refused_with_the_rule():
    raw = safe_load((ROOT / "params.yaml").read_text())
    at_its_end = re.compile(re.escape(NAME_RULE) + "$")
    table = [((section, name), at_its_end) for section in SECTIONS for name in ODD]
    assert unsaid(table, lambda given: parse_params(renamed(raw, *given), origin="params.yaml")) == []


@pytest.mark.parametrize("name", ["photo2", "A-b_9", "2", "x" * 100, "ä", "猫"])
def test_valid_names(name):
    raw = safe_load((ROOT / "params.yaml").read_text())
    assert name in parse_params(renamed(raw, "soups", name), origin="params.yaml").soups


@pytest.mark.parametrize(
    ("section", "name"), [("datasets", "$(touch x)"), ("soups", "a; touch x"), ("finetune.methods", "cats & dogs")]
)
def test_dvc_runs_no_part_of_a_name(project, section, name):
    """DVC itself puts names into the paths of deps and outs; the first stage that runs refuses them."""
    raw = safe_load((project.folder / "params.yaml").read_text())
    before = project.outs()
    project.write_params(renamed(raw, section, name))
    try:
        printed = project.run("dvc", "repro", good=False)
        assert "Running stage 'code':\n> python stages code\nerror: " in printed
        assert f"error: params.yaml: {section}.{name}: {name!r} is not valid: {NAME_RULE}\n" in printed
        assert "Traceback" not in printed
        assert not [path for path in project.folder.iterdir() if path.name == "x"]
    finally:
        project.git("checkout", "-q", "--", ".")
    assert project.outs() == before


def test_a_dot_in_a_name_is_refused_before_dvc_takes_it_apart(project: Project):
    """To DVC a dot separates keys of params."""
    raw = safe_load((project.folder / "params.yaml").read_text())
    project.write_params(renamed(raw, "finetune.methods", "a.b"))
    try:
        printed = project.run("dvc", "repro", good=False)
        assert f"error: params.yaml: finetune.methods.a.b: 'a.b' is not valid: {NAME_RULE}\n" in printed
        assert NAME_RULE in project.run("wsoup", "check", good=False)
    finally:
        project.git("checkout", "-q", "--", ".")
