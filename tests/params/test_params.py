"""params.yaml: what is refused, and in what words."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml

from wsoup.base.errors import MissingError, ParamsError
from wsoup.check.whole import load_params, parse_params
from wsoup.params.section import read_yaml

ROOT = Path(__file__).parents[2]
RAW = yaml.safe_load((ROOT / "params.yaml").read_text())
PLANE = {"steps": 2, "margin": 0, "soup": "word"}


def changed(where: str, value: object) -> dict:
    """The project's params with one key set (or removed where the value is ...)."""
    raw = copy.deepcopy(RAW)
    *sections, key = where.split(".")
    section = raw
    for name in sections:
        section = section[name]
    if value is ...:
        del section[key]
    else:
        section[key] = value
    return raw


def test_the_projects_own_params_are_valid():
    assert load_params(ROOT / "params.yaml").soups["word"].k0 == RAW["soups"]["word"]["k0"]


@pytest.mark.parametrize(
    ("where", "value", "expected"),
    [
        ("soups.word.pateince", 3, "unknown key 'soups.word.pateince'; did you mean 'patience'?"),
        ("sops", {}, "unknown key 'sops'; did you mean 'soups'?"),
        ("datasets.shapes.tempate", "x", "unknown key 'datasets.shapes.tempate'; did you mean 'template'?"),
        ("encoder.zzz", 1, "unknown key 'encoder.zzz'; known keys here: model, pretrained"),
        ("soups.word.k0", ..., "key 'soups.word.k0' is missing"),
        ("soups.word.k0", 2000, "k0 (2000) must not exceed k1 (1000)"),
        ("soups.word.k0", "many", "soups.word.k0: 'many' is not valid: input should be a valid integer"),
        ("fewshot.shots", 0, "fewshot.shots: 0 is not valid: input should be greater than or equal to 1"),
        ("soups.word.m", 2.5, "soups.word.m: 2.5 is not valid"),
        ("seeds", [], "seeds: [] is not valid: list should have at least 1 item"),
        ("seeds", [1, 1], "seeds: [1, 1] holds a seed twice"),
        ("source", "photos", "source 'photos' is not among the datasets"),
        ("report.soup", "wrod", "report.soup: 'wrod' is not among the soups: descriptor, word, top, sample"),
        ("report.mode", "mean", "report.mode: 'mean' is not valid: input should be 'centroid'"),
        ("datasets.counts.role", "source", "exactly one dataset has role: source"),
        ("datasets.counts.template", "a photo", "must hold exactly one placeholder"),
        ("landscape", {**PLANE, "methods": ["cop"]}, "landscape.methods: 'cop' is not among finetune.methods: coop"),
        ("landscape.methods", ["coop"], "landscape: methods needs steps, margin, soup beside it"),
        ("finetune.ema", ..., "finetune: methods needs ema beside it (docs/params.md has usual values)"),
        ("landscape.steps", 0, "landscape.steps: 0 is not valid: input should be greater than or equal to 1"),
        ("encoder.precision", "fp8", "encoder.precision: 'fp8' is not valid: input should be 'fp32', 'bf16'"),
    ],
)
def test_errors_are_one_line(where, value, expected):
    with pytest.raises(ParamsError) as error:
        parse_params(changed(where, value), origin="params.yaml")
    assert expected in str(error.value)
    assert str(error.value).startswith("params.yaml: ")
    assert "\n" not in str(error.value)


def test_an_edited_file_is_read_again(tmp_path):
    file = tmp_path / "params.yaml"
    for value in (1, 2, 1):
        file.write_text(f"seeds: [{value}]\n")
        assert read_yaml(file) == {"seeds": [value]}


def test_a_missing_or_broken_file(tmp_path):
    with pytest.raises(MissingError, match=r"wsoup profile demo --out params\.yaml"):
        load_params(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("a: [1")
    with pytest.raises(ParamsError, match="is not YAML"):
        load_params(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("- a\n")
    with pytest.raises(ParamsError, match="must hold sections"):
        load_params(tmp_path / "params.yaml")
