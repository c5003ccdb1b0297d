"""2SFS: norms are trained first, then class weights alone, which begin as the texts (arXiv 2503.11609)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from finetune_cases import METHODS, finetune_params
from pydantic import ValidationError
from torch.nn import functional as F

from wsoup.finetune.optimizer_params import AdamOptimizer, ScheduleParams
from wsoup.finetune.params import MethodParams, SnapshotParams
from wsoup.finetune.train import Trainer

ADAMW = {"optimizer": AdamOptimizer(kind="adamw", weight_decay=0.01), "schedule": ScheduleParams(kind="cosine")}
FIRST, ALL = 3, 6
"""Iterations of the first stage, and of both."""


def trainer(encoder, source, name: str = "both_stages", *, own: dict[str, Any] | None = None, **shared) -> Trainer:
    params = finetune_params(**{"iterations": ALL, "ema": 0.0, **shared})
    method = params.methods[name].model_copy(update={**ADAMW, **(own or {})})
    return Trainer(encoder, source=source, method=method, shared=params, seed=1)


def stepped(run: Trainer, iterations: int) -> Trainer:
    for _ in range(iterations):
        run.step()
    return run


def class_texts(run: Trainer) -> torch.Tensor:
    """Directions of the mean text of each class, over all members."""
    with torch.no_grad():
        return F.normalize(torch.stack([run.passes.texts(m) for m in range(run.passes.members)]).mean(dim=0), dim=-1)


def test_the_first_stage_is_a_whole_training_of_so_many_iterations(tiny_encoder, colours):
    """With its own cosine; the second stage then moves no norm."""
    both = trainer(tiny_encoder, colours).run()
    first = trainer(tiny_encoder, colours, "two_stage", iterations=FIRST).run()
    for name, weights in first.trained().items():
        assert torch.equal(both.get_parameter(name), weights), name
    assert set(both.trained_names) - set(first.trained_names) == {"class_weights"}


def test_class_weights_begin_as_the_texts_and_are_trained_as_by_plain_torch(tiny_encoder, colours):
    """AdamW and the cosine begin again; images are those that the frozen towers give."""
    run = stepped(trainer(tiny_encoder, colours), FIRST)
    texts = class_texts(run)
    assert not run.student.class_weights.any()
    plain = torch.nn.Parameter(texts.clone())
    optimizer = torch.optim.AdamW([plain], lr=0.01, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, ALL - FIRST)
    for step in range(FIRST, ALL):
        pixels, labels = run.batches.load(step)
        with torch.no_grad():
            images, _ = run.passes.images(run.batches.images.normalized(pixels), teacher=False)
        optimizer.zero_grad()
        F.cross_entropy(60 * images @ F.normalize(plain, dim=-1).T, labels).backward()
        optimizer.step()
        schedule.step()
    trained = run.run().class_weights
    torch.testing.assert_close(trained, plain, rtol=1e-5, atol=1e-6)
    assert float((trained - texts).abs().max()) > 1e-3


def test_an_average_is_what_the_second_stage_begins_with(tiny_encoder, colours):
    """Norms are set to their averages, and the average of the class weights begins with them."""
    run = stepped(trainer(tiny_encoder, colours, ema=0.9), FIRST)
    averages = {name: average.clone() for name, average in run.weights.average.items()}
    run.step()
    for name, average in averages.items():
        if name != "class_weights":
            assert torch.equal(run.student.get_parameter(name), average)
            assert torch.equal(run.weights.average[name], average)
    with torch.no_grad():
        begun = torch.stack([run.passes._encode_texts(m) for m in range(run.passes.members)]).mean(dim=0)
    expected = 0.9 * F.normalize(begun, dim=-1) + 0.1 * run.student.class_weights
    torch.testing.assert_close(run.weights.average["class_weights"], expected)


@pytest.mark.parametrize("iterations", [FIRST - 1, FIRST, FIRST + 1])
def test_a_killed_training_goes_on_in_its_stage(tiny_encoder, colours, tmp_path, iterations):
    stepped(trainer(tiny_encoder, colours, ema=0.5), iterations).save(tmp_path / "running")
    resumed = trainer(tiny_encoder, colours, ema=0.5).run(resume=tmp_path / "running")
    whole = trainer(tiny_encoder, colours, ema=0.5).run()
    for name, weights in whole.trained().items():
        assert torch.equal(weights, resumed.get_parameter(name)), name


def test_a_snapshot_of_the_first_stage_has_no_class_weights_yet(tiny_encoder, colours):
    run = trainer(tiny_encoder, colours, own={"snapshots": SnapshotParams(every=FIRST, images=1)})
    student = run.run()
    assert [bool(run.snapshots[i]["class_weights"].any()) for i in (0, FIRST, ALL)] == [False, False, True]
    directions = student.class_directions()
    assert list(directions) == list(colours.class_names)
    assert torch.equal(torch.stack([*directions.values()]), F.normalize(student.class_weights.detach(), dim=-1))
    with torch.no_grad():
        student.class_weights.zero_()
    assert student.class_directions() == {}


def test_without_a_second_stage_there_are_no_class_weights(tiny_encoder, colours):
    assert trainer(tiny_encoder, colours, "two_stage").student.class_weights is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": {"kind": "prolip", "weight": 0.1}}, "the second stage takes loss cross_entropy, not prolip"),
        ({"average": {"parts": 2, "mean": 1, "deviation": 1}}, "average: the two stages .* have no common average"),
        ({"tune": {"kind": "block_norms", "first_stage": 1.0}}, "should be less than 1"),
        ({"tune": {"kind": "block_norms", "first_stage": 0}}, "should be greater than 0"),
    ],
)
def test_what_the_stages_do_not_go_with_is_refused(change, message):
    method = {**METHODS["both_stages"], "soup": "class_name", "learning_rate": 0.01, "prompt_factor": 1}
    with pytest.raises(ValidationError, match=message):
        MethodParams(**{**method, **change})


def test_one_class_weight_is_trained_for_each_class_of_a_soup_too(tiny_encoder, colours):
    """All members of a soup begin it, as the centroid of their texts."""
    source = dataclasses.replace(colours, soup=["sharp", "ears"])
    run = stepped(trainer(tiny_encoder, source), FIRST)
    texts = class_texts(run)
    run._begin_second_stage()
    assert torch.equal(run.student.class_weights, texts)
