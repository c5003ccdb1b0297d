"""Section `finetune`: which method is another without its soup and the diversity loss."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from wsoup.finetune.params import MethodParams, without_soup

TUNE = {"kind": "prompt", "tokens": 3}
PLAIN = {"kind": "cross_entropy"}
DIVERSE = {"kind": "cross_entropy", "lambda": 0.25, "teacher_logit_scale": 10}


def method(**about: Any) -> MethodParams:
    usual = {"tune": TUNE, "loss": PLAIN, "soup": "class_name", "learning_rate": 0.1, "prompt_factor": 10}
    return MethodParams.model_validate(usual | about)


def test_the_same_method_without_soup_and_teacher_is_found_whatever_its_name():
    methods = {"diverse": method(loss=DIVERSE, soup="word", members=4), "regularised": method(loss=DIVERSE)}
    assert without_soup(methods, "diverse") is None, "a teacher on the class name is the diversity loss without a soup"
    slower = {"slower": method(learning_rate=0.2)}
    assert without_soup(methods | slower, "diverse") is None
    plain = {"plain": method(snapshots={"every": 5, "images": 9})}
    assert without_soup(methods | slower | plain, "diverse") == "plain"
    assert without_soup(methods | plain, "plain") is None


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"select": {"learning_rate": [0.1, 0.1]}}, "has 0.1 2 times, which is trained each time; list it once"),
        ({"select": {"learning_rate": [0.2, 1e-3, 0.001, 0.1]}}, "has 0.001 2 times"),
        ({"schedule": {"kind": "cosine", "parts": 10**9}}, "less than or equal to 100000000"),
        ({"schedule": {"kind": "cosine", "warmup": {"parts": 10**400, "learning_rate": 0.1}}}, "less than or equal to"),
        ({"average": {"parts": 10**6, "mean": 6, "deviation": 10}}, "less than or equal to 10000"),
    ],
)
def test_values_that_nobody_means_are_refused(about: dict[str, Any], message: str):
    """Equal rates would be trained twice, and more parts than steps of training are the steps themselves."""
    with pytest.raises(ValidationError, match=message):
        method(**about)
