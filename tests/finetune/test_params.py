"""Section `finetune`: which method is another without its soup and the diversity loss, and what is never trained."""

from __future__ import annotations

from typing import Any

import pytest
from finetune_cases import finetune_params
from pydantic import ValidationError

from wsoup.finetune.optimizer_params import ScheduleParams
from wsoup.finetune.params import MethodParams, without_soup
from wsoup.finetune.schedule import rate_factor
from wsoup.finetune.untrained import untrained

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


NORMS = {"kind": "block_norms", "first_stage": 0.01}
SOFT = {"kind": "soft_descriptors", "members": 8, "tokens": 3, "prompt_tokens": 0}


def problems(shared: int, *, shots: int = 16, **about: Any) -> list[str]:
    """Of one method, where all methods share so many iterations."""
    section = finetune_params(iterations=shared).model_copy(update={"methods": {"x": method(**about)}})
    return list(untrained(section, shots=shots))


def warmed(parts: int, *, of: int | None = None) -> dict[str, Any]:
    return {"kind": "cosine", "parts": of, "warmup": {"parts": parts, "learning_rate": 1e-5}}


def test_a_share_of_the_iterations_that_is_none_is_refused():
    """The second of two stages always has one, since the first is rounded down."""
    assert problems(50, tune=NORMS) == [
        "finetune.methods.x.tune.first_stage: 0.01 of 50 iterations (finetune.iterations) is less than one, so no norm "
        "would be trained; raise one of the two"
    ]
    assert problems(100, tune=NORMS) == problems(50, tune=NORMS | {"first_stage": 0.02}) == []
    assert problems(50, tune=NORMS | {"first_stage": 0.999999}) == []
    (message,) = problems(50, tune=NORMS | {"first_stage": 0.6}, iterations=1)
    assert "0.6 of 1 iteration (finetune.methods.x.iterations)" in message


def test_soft_descriptors_without_an_iteration_are_refused_where_each_is_trained_by_itself():
    assert problems(6, tune=SOFT) == [
        "finetune.methods.x.tune.members: 8 soft descriptors are trained one after the other in 6 iterations "
        "(finetune.iterations), so 2 of them would not be trained; lower members, or raise the iterations"
    ]
    assert problems(8, tune=SOFT) == []
    together = {"kind": "proda", "per_step": 2, "orthogonality": 0.1}
    assert problems(6, tune=SOFT, loss=together) == []


def test_a_warmup_of_all_parts_is_refused():
    """It leaves nothing to the method's own rate: of the whole training, or of its shortest turn."""
    assert problems(50, schedule=warmed(20, of=20)) == [
        "finetune.methods.x.schedule.warmup.parts: 20 (of 20) leaves none of 50 iterations (finetune.iterations) to "
        "the method's own learning_rate; lower it"
    ]
    for refused, taken in ((50, 49), (20, 19)):
        tune = TUNE if refused == 50 else NORMS | {"first_stage": 0.6}
        assert len(problems(50, tune=tune, schedule=warmed(refused))) == 1
        assert problems(50, tune=tune, schedule=warmed(taken)) == []


@pytest.mark.parametrize("n_warm", range(1, 21))
@pytest.mark.parametrize("iterations", [1, 3, 7, 20, 50])
def test_a_warmup_is_refused_exactly_where_the_schedule_never_ends_it(n_warm: int, iterations: int):
    schedule = warmed(n_warm, of=20)
    factor = rate_factor(ScheduleParams.model_validate(schedule), learning_rate=0.1)
    ends = factor(iterations - 1, iterations) != 1e-4
    assert bool(problems(iterations, schedule=schedule)) is not ends


def test_a_rate_is_not_chosen_on_no_image():
    rates = {"learning_rate": [0.1, 0.2]}
    assert problems(50, select=rates, shots=2) == []
    assert problems(50, select=rates, shots=1) == [
        "finetune.methods.x.select: half of each class's few-shot images are held out to choose a rate, and of 1 "
        "(fewshot.shots) none would be; take 2 or more, or leave select out"
    ]
