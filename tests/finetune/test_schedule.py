"""The learning rate from iteration to iteration: by hand, and as torch and Dassl have it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from wsoup.finetune.averages import SOFT, AveragedWeights, steady_share
from wsoup.finetune.optimizer_params import ScheduleParams
from wsoup.finetune.schedule import rate_factor

PROMPTSRC = {"kind": "cosine", "parts": 20, "warmup": {"parts": 1, "learning_rate": 1e-5}}


def rates(schedule: dict[str, Any] | None, *, rate: float, iterations: int) -> list[float]:
    factor = rate_factor(schedule and ScheduleParams.model_validate(schedule), learning_rate=rate)
    return [rate * factor(i, iterations) for i in range(iterations)]


def test_half_a_cosine_by_hand():
    """Four iterations: 1 + cos 0, 45, 90 and 135 degrees, halved."""
    half = math.sqrt(0.5) / 2
    assert rates({"kind": "cosine"}, rate=8.0, iterations=4) == pytest.approx(
        [8, 8 * (0.5 + half), 4, 8 * (0.5 - half)]
    )


def test_without_a_schedule_the_rate_stays_to_the_bit():
    assert rates(None, rate=8e-5, iterations=3) == [8e-5] * 3


def test_a_constant_rate_after_a_warmup():
    schedule = {"kind": "constant", "warmup": {"parts": 2, "learning_rate": 0.1}}
    assert rates(schedule, rate=0.4, iterations=4) == pytest.approx([0.1, 0.1, 0.4, 0.4])


def test_within_a_part_the_rate_stays():
    """Five iterations in two parts: the second begins with the third iteration, as that of an average's parts does."""
    assert rates({"kind": "cosine", "parts": 2}, rate=2.0, iterations=5) == pytest.approx([2, 2, 2, 1, 1])


@pytest.mark.parametrize("least", [0.0, 1e-6])
def test_the_cosine_is_torchs(least):
    """ProLIP's (to 0) and CLIP-LoRA's (to 1e-6), which step in every iteration."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=2e-4)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30, eta_min=least)
    expected = []
    for _ in range(30):
        expected.append(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()
    ours = rates({"kind": "cosine", "least": least}, rate=2e-4, iterations=30)
    assert ours == pytest.approx(expected, rel=1e-9)


def test_promptsrcs_epochs_are_dassls():
    """One epoch at 1e-5; then 19 of the cosine of 20 (WARMUP_RECOUNT: it begins anew), two iterations in each."""
    cosine = [2.5e-3 * (1 + math.cos(math.pi * epoch / 20)) / 2 for epoch in range(19)]
    expected = [rate for epoch in [1e-5, *cosine] for rate in (epoch, epoch)]
    assert rates(PROMPTSRC, rate=2.5e-3, iterations=40) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("members", "iterations"), [(2, 6), (3, 7), (4, 4)])
def test_every_soft_descriptor_of_an_ensemble_goes_through_the_whole_schedule(members, iterations):
    """And of weights that train together there is one schedule."""
    weights = {SOFT: torch.nn.Parameter(torch.zeros(members, 1, 1))}
    share = steady_share(ema=0.5)
    ensemble = AveragedWeights(weights, share=share, iterations=iterations, ensemble=True)
    turns: dict[int, list[tuple[int, int]]] = {}
    for i in range(iterations):
        turns.setdefault(ensemble.text_index(i), []).append(ensemble.turn(i))
    assert list(turns) == list(range(members))
    for own in turns.values():
        assert own == [(place, len(own)) for place in range(len(own))]
    together = AveragedWeights(weights, share=share, iterations=iterations, ensemble=False)
    assert [together.turn(i) for i in range(iterations)] == [(i, iterations) for i in range(iterations)]
