"""Section `finetune` of params.yaml: every method of the profile, and invalid settings."""

from __future__ import annotations

import ast
from typing import Any, get_args

import pytest
from finetune_cases import COMMON, METHODS, SHARED
from half_done import unread_keys, unused
from processes import ROOT
from pydantic import ValidationError
from yaml_in_c import safe_load

from wsoup.finetune.loss_params import LossParams
from wsoup.finetune.params import FinetuneParams, MethodParams
from wsoup.finetune.tune_params import TuneParams
from wsoup.pipeline.params import parse_params
from wsoup.pipeline.profiles.demo import demo

SOFT = {"kind": "soft_descriptors", "members": 2, "tokens": 3, "prompt_tokens": 0}


def kinds(union: Any) -> set[str]:
    return {get_args(member.model_fields["kind"].annotation)[0] for member in get_args(union)}


def cases(file: str) -> set[str]:
    """The classes that some `match` of a file has a case for."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {ast.unparse(node.cls) for node in ast.walk(tree) if isinstance(node, ast.MatchClass)}


@pytest.mark.parametrize(
    ("file", "union", "without"),
    [
        ("wsoup/finetune/objective.py", LossParams, set()),
        # A prompt alone is what every kind of tune may have besides.
        ("wsoup/finetune/tuners.py", TuneParams, {"PromptTune"}),
    ],
)
def test_every_kind_has_a_case_where_it_is_computed(file: str, union: Any, without: set[str]) -> None:
    missing = {kind.__name__ for kind in get_args(union)} - cases(file) - without
    assert not missing, f"{file}: a match has no case for {sorted(missing)}, so nothing computes or trains it"


def test_every_key_of_a_method_is_read():
    assert not unread_keys("finetune"), "\n".join(unread_keys("finetune"))


def test_everything_is_used():
    assert not unused("finetune"), "\n".join(unused("finetune"))


def test_the_methods_profile_has_every_kind_of_tune_and_loss():
    methods = parse_params(safe_load(demo("all")), origin="methods").finetune.methods.values()
    where = "a method of data/toy/methods.yaml or data/toy/rivals.yaml has each kind of tune and of loss"
    assert {method.tune.kind for method in methods} == kinds(TuneParams), where
    assert {method.loss.kind for method in methods} == kinds(LossParams), where
    assert {method.soup for method in methods} == {"class_name", "descriptor", "word"}


def test_the_test_cases_have_every_kind_too():
    where = "tests/helpers/finetune_cases.py: METHODS has a method with each kind of tune and of loss"
    assert {method["tune"]["kind"] for method in METHODS.values()} == kinds(TuneParams), where
    assert {method["loss"]["kind"] for method in METHODS.values()} == kinds(LossParams), where


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": {"kind": "cross_entropy", "lambda": 0.25}}, "lambda needs teacher_logit_scale"),
        ({"loss": {"kind": "cross_entropy", "lambda": 1.5, "teacher_logit_scale": 10}}, "less than or equal to 1"),
        ({"loss": {"kind": "hinge"}}, "does not match any of the expected tags"),
        ({"tune": {"kind": "prompt", "tokens": 0}}, "greater than or equal to 1"),
        ({"loss": {"kind": "proda", "per_step": 2, "orthogonality": 0.1}}, "proda needs tune soft_descriptors"),
        ({"tune": SOFT, "soup": "word"}, "soup must be class_name"),
        ({"tune": SOFT, "loss": {"kind": "kgcoop", "weight": 1}},
         "takes loss proda or cross_entropy"),
        ({"tune": SOFT, "loss": {"kind": "cross_entropy", "lambda": 0.25, "teacher_logit_scale": 10}},
         "takes cross_entropy with lambda only with start: soup"),
        ({"tune": {**SOFT, "start": "soup"}}, "start: soup needs a soup to start from, not class_name"),
        ({"average": {"parts": 0, "mean": 6, "deviation": 10}}, "greater than or equal to 1"),
        ({"average": {"parts": 20, "mean": 6, "deviation": 0}}, "greater than 0"),
        ({"tune": SOFT, "average": {"parts": 20, "mean": 6, "deviation": 10}},
         "average: soft_descriptors with cross_entropy are trained one after the other"),
        ({"ema": 0.9, "average": {"parts": 20, "mean": 6, "deviation": 10}}, "average and ema are two averages"),
        ({"schedule": {"kind": "cosine", "least": 0.1}}, r"schedule.least 0.1 is above learning_rate 0.01"),
        ({"schedule": {"kind": "linear"}}, "Input should be 'constant' or 'cosine'"),
        ({"optimizer": {"kind": "lion"}}, "does not match any of the expected tags"),
        ({"tune": {"kind": "bitfit", "blocks": 1, "opens": "image_twice"}, "optimizer": {"kind": "adam"}},
         "image_twice takes two steps of SGD; give optimizer kind sgd or leave it out"),
        ({"rate": 1}, "Extra inputs are not permitted"),
    ],
)  # fmt: skip
def test_invalid_methods_are_refused(change, message):
    with pytest.raises(ValidationError, match=message):
        MethodParams(**{**COMMON, **METHODS["coop"], **change})


def test_what_a_method_does_not_name_for_itself_is_not_written():
    """Neither beside weights nor in resume keys, so that a method keeps both when there is more that it may name."""
    plain = {**COMMON, **METHODS["coop"]}
    keys = {*plain, "members", "iterations", "batch_size", "average", "snapshots"}
    assert {*MethodParams(**plain).meant()} == keys
    own = {"ema": 0.0, "logit_scale": 100.0, "optimizer": {"kind": "adam"}, "schedule": {"kind": "cosine"}}
    assert {*MethodParams(**plain, **own).meant()} == {*keys, *own}


def test_a_crop_must_be_a_range():
    with pytest.raises(ValidationError, match=r"crop \[0.9, 0.5\] must be \[smallest, largest\] share"):
        FinetuneParams(**{**SHARED, "augment": {"crop": [0.9, 0.5], "flip": True}}, methods={})
