"""Wrong params: each file is either read, or refused at once in one line of at most 500 characters."""

from __future__ import annotations

import copy
import math
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from corrupt import corrupted
from dvc.utils.serialize import parse_yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from project import ROOT
from said import unlike, unsaid
from yaml_in_c import safe_load

from wsoup.base.errors import LONGEST, ParamsError, WsoupError
from wsoup.params import reading
from wsoup.pipeline.params import load_params, parse_params
from wsoup.pipeline.profiles.demo import demo
from wsoup.pipeline.profiles.templates import filled

QUIET = [HealthCheck.function_scoped_fixture]


def refusal(path: Path) -> str | None:
    """The error of a params file, one line; None if it is read."""
    try:
        load_params(path)
    except WsoupError as error:
        text = str(error)
        assert text.isprintable()
        assert len(text) <= max(LONGEST, 200 + len(str(path)))
        return text
    return None


@lru_cache
def good() -> dict[str, Any]:
    """The profile with every method: all kinds of sections."""
    return safe_load(demo("all"))


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every value in the file, sections included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, part in inner for place in places(part, (*at, key)))]


def changed(place: tuple[Any, ...], value: Any, *, of: dict[str, Any] | None = None) -> Any:
    raw = copy.deepcopy(good() if of is None else of)
    if not place:
        return value
    section: Any = raw
    for key in place[:-1]:
        section = section[key]
    section[place[-1]] = value
    if value is ...:
        del section[place[-1]]
    return raw


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "params.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return path


# ----------------------------------------------------------------------------------------------------- by hand


def test_a_typo_is_taken_for_a_key_that_is_missing_before_one_that_is_there(tmp_path):
    """``ko`` is as near to k1, which the file has, as to k0, which it lacks."""
    raw = changed(("soups", "word", "k0"), ...)
    raw["soups"]["word"]["ko"] = 250
    text = refusal(write(tmp_path, yaml.safe_dump(raw)))
    assert "unknown key 'soups.word.ko'; did you mean 'k0'?; key 'soups.word.k0' is missing" in (text or "")


WRONG_VALUES = [
    ("soups.word.pateince", 3, "unknown key 'soups.word.pateince'; did you mean 'patience'?"),
    ("soups.word.k2", 3, "unknown key 'soups.word.k2'; did you mean 'k1'?"),
    ("sops", {}, "unknown key 'sops'; did you mean 'soups'?"),
    ("datasets.shapes.tempate", "x", "unknown key 'datasets.shapes.tempate'; did you mean 'template'?"),
    ("encoder.zzz", 1, "unknown key 'encoder.zzz'; known keys here: model, pretrained"),
    ("encoder." + "k" * 3_000, 1, "unknown key 'encoder.kkk"),
    ("soups.word.k0", ..., "key 'soups.word.k0' is missing"),
    ("soups.word.k0", 2000, "k0 (2000) must not exceed k1 (1000)"),
    ("finetune.methods.coop.learning_rate", True, "coop.learning_rate: true is not valid: it must be a number"),
    ("finetune.ema", False, "finetune.ema: false is not valid: it must be a number"),
    ("report.confidence", True, "report.confidence: true is not valid: it must be a number"),
    ("soups.word.k0", "many", "soups.word.k0: 'many' is not valid: it must be an integer"),
    (
        "soups.word.kind",
        "chain",
        "soups.word.kind: 'chain' is not valid: it must be one of greedy, chains, top, sample",
    ),
    ("soups.word.kind", "chain", "did you mean 'chains'?"),
    ("soups.word.kind", ..., "key 'soups.word.kind' is missing"),
    ("report.method", "coop_divers", "report.method: 'coop_divers' is not among finetune.methods; did you mean"),
    ("datasets.counts.role", "xdd", "datasets.counts.role: 'xdd' is not valid: it must be one of source, xd, dg"),
    ("datasets.counts.template", 3, "it must be a text; put it in quotes if it looks like a number"),
    ("encoder", "toy", "encoder: 'toy' is not valid: it must be a section (key: value)"),
    ("soups.word.m", 2.5, "soups.word.m: 2.5 is not valid"),
    ("soups.word.m", 10**9, "soups.word.m: 1000000000 is not valid"),
    ("fewshot.shots", 0, "fewshot.shots: 0 is not valid: it must be 1 or more"),
    ("fewshot.shots", "x" * 10**5, "fewshot.shots: 'xxx"),
    ("fewshot.shots", {"a": {str(i): "y" * 100 for i in range(1_000)}}, "it must be an integer"),
    ("seeds", [], "seeds: [] is not valid: it must be a list of 1 or more"),
    ("seeds", [1, 1], "seeds: [1, 1] holds a seed twice"),
    ("seeds", [2**63], "it must be less than 9223372036854775808"),
    ("seeds", [*range(10**3)], "it must be a list of 100 or fewer"),
    ("seeds", [-1], "seeds.0: -1 is not valid"),
    ("source", "photos", "source is 'photos', and role: source is on shapes of the datasets"),
    ("report.soup", "wrod", "params.yaml: report.soup: 'wrod' is not among the soups; did you mean 'word'?"),
    (
        "score.likelihood",
        ["descriptors"],
        "rank_by: count_k2 reads k2, which score.likelihood computes for descriptors; add words there, or",
    ),
    ("score.likelihood", [], "which score.likelihood computes for no pool; add words there"),
    (
        "score.likelihood",
        ["verbs"],
        "score.likelihood[0]: 'verbs' is not among candidates.pools; there are words, descriptors",
    ),
    (
        "candidates.facts",
        {"paths": ["facts.txt"], "period": True},
        "nor in pools; there are pools, words, descriptors, waffle, watch, on_long_text, templates, or add facts "
        "to pools",
    ),
    (
        "report.mode",
        "mean",
        "report.mode: 'mean' is not valid: it must be one of centroid, score_mean, paper; did you mean",
    ),
    ("datasets.counts.role", "source", "role: source is on shapes, counts of the datasets; exactly one"),
    ("datasets.counts.root", "x" * 5_000, "it must be a text of 4000 characters or fewer"),
    ("datasets.counts.root", "a\0b", "holds a control character"),
    ("datasets.counts.root", "", "it must be a text of 1 character or more"),
    ("datasets.counts.template", "a {}\nb", "holds a control character"),
    ("datasets.counts.template", "{}" * 2_000, "must hold exactly one placeholder"),
    ("finetune.ema", ..., "finetune: methods needs ema beside it (docs/params.md has usual values)"),
    ("finetune.methods.coop.learning_rate", math.inf, "it must be a number, neither infinite nor NaN"),
    ("finetune.methods.coop.learning_rate", "nan", "learning_rate: 'nan' is not valid"),
    ("finetune.weight_decay", math.nan, "finetune.weight_decay: nan is not valid"),
    ("finetune.logit_scale", -math.inf, "finetune.logit_scale: -inf is not valid"),
    ("finetune.iterations", 10**18, "finetune.iterations: 1000000000000000000 is not valid"),
    (
        "encoder.precision",
        "fp8",
        "encoder.precision: 'fp8' is not valid: it must be one of fp32, bf16, fp16, pure_bf16, pure_fp16, ",
    ),
    ("encoder.image_std", [0.0, 1.0, 1.0], "encoder.image_std.0: 0.0 is not valid: it must be 1e-06 or more"),
    ("finetune.logit_scale", 0, "finetune.logit_scale: 0 is not valid: it must be more than 0.0"),
    ("evaluate.m", [1, 10**9], "evaluate.m.1: 1000000000 is not valid: it must be 10000 or less"),
    ("evaluate.offsets", [0, 10**6], "evaluate.offsets.1: 1000000 is not valid"),
    ("embed.batch_size", 10**9, "it must be 65536 or less"),
    ("landscape.methods", ["cop"], "landscape.methods: 'cop' is not among finetune.methods; did you mean 'coop'?"),
    ("landscape.methods", ["coop"], "landscape.methods: 'coop' is not a method with tune.kind soft_descriptors"),
    ("landscape", {"methods": ["coop"]}, "landscape: methods needs steps, margin, soup beside it"),
    ("landscape.steps", 10**9, "it must be 200 or less"),
]


def test_each_wrong_value_is_named(tmp_path: Path) -> None:
    params = safe_load((ROOT / "params.yaml").read_text())

    def load(change: tuple[str, object]) -> None:
        place, value = change
        raw = changed(tuple(place.split(".")), value, of=params)
        load_params(write(tmp_path, yaml.safe_dump(raw, sort_keys=False)))

    table = [((place, value), message) for place, value, message in WRONG_VALUES]
    assert unsaid(table, load, file=f"{tmp_path}/params.yaml: ") == []


BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10))]
)
MERGED = "\n".join(
    ["a0: &a0 {x: 1}", *(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 10))]
)


def test_the_longest_file_that_is_read_has_200_000_characters():
    head = "a: 1  #"
    assert reading.parse_yaml(head.ljust(200_000, "é"), origin="x") == {"a": 1}
    with pytest.raises(ParamsError, match="x has 200,001 characters, params have 200,000 at most"):
        reading.parse_yaml(head.ljust(200_001, "é"), origin="x")


NOT_PARAMS: list[tuple[str | bytes, str]] = [
    (b"\xff\xfes\x00o\x00u\x00", "is not UTF-8 text (byte 0); save it as UTF-8"),
    ("source: Größe\n".encode("latin-1"), "is not UTF-8 text (byte 10)"),
    (BOMB, "stands for more than 50,000 values"),
    (MERGED, "stands for more than 50,000 values"),
    (BOMB + f"\nseeds: {[*range(9)]}\nfewshot: {{shots: *a9}}", "stands for more than 50,000 values"),
    ("a: &a [*a]", "holds itself by an alias"),
    ("[" * 100_000, "is not YAML"),
    ("x" * 200_001, "params have 200,000 at most"),
    ("source: a\nseeds: [1]\nsource: b", 'is not YAML in line 3: found duplicate key "source"'),
    ("seeds: [" + "9" * 5_000 + "]", "is not YAML"),
    ("seeds: [0x" + "f" * 5_000 + "]", "a number of more than 1,000 digits"),
    ("seeds: [2001-13-45]", "is not YAML"),
    ("!!python/object/apply:os.system ['touch ran']", "could not determine a constructor"),
    ("!!python/name:os.system", "could not determine a constructor"),
    ("? [a, b]\n: 1", "it must be a key that is a text; put it in quotes"),
    ("1: 2", "1: 1 is not valid: it must be a key that is a text; put it in quotes"),
    ("a: b: c", "is not YAML"),
    ("a: [" + "x" * 5000 + "\n" * 3 + "}: {", "is not YAML"),
    ("\tsource: a", "is not YAML"),
    ("a\0b", "is not YAML"),
    ("", "must hold sections"),
    ("--- {}\n--- {}", "is not YAML"),
    ("null", "must hold sections"),
    ("%YAML 9.9\n---\na: 1", "is not YAML"),
]


def test_files_that_are_not_params(in_tmp: Path) -> None:
    assert unsaid(NOT_PARAMS, lambda text: load_params(write(in_tmp, text)), file="params.yaml") == []
    assert not Path("ran").exists()


SCALARS_OF_YAML = [
    *("010", "-010", "08", "0o10", "0x1F", "0b11", "1_000", "1e3", "1.5e-5", "1.", ".5", ".inf", "inf", ".nan"),
    *("yes", "no", "on", "Off", "y", "N", "true", "TRUE", "~", "Null", "", "none", "1:30", "190:20:30", "1:30.5"),
    *("2001-01-01", "2001-01-01T10:00:00Z", "10:00:00", "'no'", '"010"', "!!str 010", "!!float 1e3", "! 010"),
]
"""As YAML 1.1 and 1.2 read them, other things in part."""


def read_by_dvc(text: str) -> Any:
    """A document as DVC reads it."""
    return parse_yaml(text, "params.yaml")


def test_a_scalar_is_read_as_by_dvc() -> None:
    """As a value, in a list and as a key. What DVC cannot read starts no run."""
    by_dvc = {}
    for scalar in SCALARS_OF_YAML:
        for form in ("k: {}", "k: [{}]", "{}: 1"):
            text = form.format(scalar)
            with suppress(Exception):  # DVC may raise anything
                by_dvc[text] = repr(read_by_dvc(text))  # NaN is not equal to itself
    assert len(by_dvc) > 100
    assert unlike(by_dvc.items(), lambda text: repr(reading.parse_yaml(text, origin="params.yaml"))) == []


def test_strings_in_a_profile_are_strings_to_dvc_too() -> None:
    signs = ["a: b", "- a", "#", "&a", "*a", "%", "@", "`", "|", ">", " a ", "="]
    for text in [*SCALARS_OF_YAML, *signs]:
        meant = {"k": {f"x{text}": text}}
        document = filled("\nk: 1\n", meant)
        assert read_by_dvc(document) == reading.parse_yaml(document, origin="x") == meant


YAML_1_1 = [
    ("k0: 250", "k0: 1:30", "soups.word.k0: '1:30' is not valid: it must be an integer"),
    ("k0: 250", "k0: 1e3", r"soups.word.k0: 1000.0 is not valid"),
    ("period: false", "period: no", "period: 'no' is not valid: it must be true or false"),
    ("period: false", "period: 0", "period: 0 is not valid"),
    ("source:", "%YAML 1.1\n---\nsource:", "params are YAML 1.2, as DVC reads them: take that line out"),
]


def test_yaml_1_1_is_not_read(tmp_path: Path) -> None:
    params = (ROOT / "params.yaml").read_text()

    def load(edit: tuple[str, str]) -> None:
        before, old, after = params.partition(edit[0])
        assert old
        load_params(write(tmp_path, edit[1] + after if "%YAML" in edit[1] else before + edit[1] + after))

    assert unsaid([((old, new), message) for old, new, message in YAML_1_1], load) == []


def test_aliases_within_bounds_are_read(tmp_path: Path) -> None:
    text = (ROOT / "params.yaml").read_text().replace("shots: 16 ", "shots: &n 16 ")
    text = text.replace("baseline_m: 16 ", "baseline_m: *n ")
    assert "*n" in text
    assert refusal(write(tmp_path, text)) is None


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    for value in (1, 2, 1):
        assert reading.read_yaml(write(tmp_path, f"seeds: [{value}]\n")) == {"seeds": [value]}


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    assert "wsoup profile demo --out params.yaml" in str(refusal(tmp_path / "params.yaml"))


# ------------------------------------------------------------------------------------------------------- drawn

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(10**30), max_value=10**30),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["", "nan", "inf", "-1", "1e400", "../..", "$(touch x)", "a; b", "{}", "word", "a\u2028b", "9" * 400]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6) | st.integers(), inner, max_size=4),
    max_leaves=8,
)


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=QUIET)
def test_any_value_in_any_place(data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(places(good())))
    parsed_or_refused(changed(place, data.draw(VALUES)))


def test_damaged_files(tmp_path: Path) -> None:
    for seed in range(12):
        refusal(write(tmp_path, corrupted((ROOT / "params.yaml").read_bytes(), seed=seed)))


def parsed_or_refused(raw: Any) -> None:
    """Read params, or refuse them in one line."""
    try:
        parse_params(raw, origin="params.yaml")
    except WsoupError as error:
        text = str(error)
        assert text.isprintable()
        assert len(text) <= LONGEST
