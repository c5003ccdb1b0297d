"""Training: every method takes reproducible steps and changes nothing that it does not train."""

from __future__ import annotations

import copy
import dataclasses
import math
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from finetune_cases import METHODS, finetune_params

from wsoup.base.errors import ParamsError
from wsoup.finetune.averages import SOFT, AveragedWeights, steady_share
from wsoup.finetune.loss_params import CrossEntropyLoss, ProlipLoss
from wsoup.finetune.optimizer_params import AdamOptimizer, ScheduleParams, SgdOptimizer
from wsoup.finetune.params import FinetuneParams, GaussianAverage, SnapshotParams
from wsoup.finetune.train import Trainer


def trainer(encoder, source, name, *, seed=1, own=None, **changes) -> Trainer:
    """With `own` settings of the method, and changes of those that all methods share."""
    shared = finetune_params(**changes)
    method = shared.methods[name].model_copy(update=own or {})
    return Trainer(encoder, source=source, method=method, shared=shared, seed=seed)


def weights(student) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in student.trained().items()}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_moves_what_it_trains_and_nothing_else(tiny_encoder, colours, name):
    pretrained = {k: v.clone() for k, v in tiny_encoder.model.state_dict().items()}
    run = trainer(tiny_encoder, colours, name, iterations=5)
    before, stored = weights(run.student), run.student.stored_names  # what else was trained is restored
    frozen = {k: v.clone() for k, v in run.student.named_parameters() if k not in before or k not in stored}
    student = run.run()
    assert all(torch.equal(v, tiny_encoder.model.state_dict()[k]) for k, v in pretrained.items())
    assert all(torch.equal(v, student.get_parameter(k)) for k, v in frozen.items())
    after = weights(student)
    assert any(not torch.equal(after[k], before[k]) for k in before)
    assert all(torch.isfinite(v).all() for v in after.values())
    assert [line["iteration"] for line in run.log] == [0, 2, 4, 5]


def test_a_heavier_penalty_keeps_the_projection_nearer_to_its_start(tiny_encoder, colours):
    """And without one it moves as with plain cross entropy."""
    moved = {}
    for weight in (0.0, 10.0):
        own = {"loss": ProlipLoss(kind="prolip", weight=weight)}
        student = trainer(tiny_encoder, colours, "prolip", own=own, iterations=5).run()
        moved[weight] = student.visual.proj - tiny_encoder.model.visual.proj
    plain = {"loss": CrossEntropyLoss(kind="cross_entropy")}
    student = trainer(tiny_encoder, colours, "prolip", own=plain, iterations=5).run()
    torch.testing.assert_close(moved[0.0], student.visual.proj - tiny_encoder.model.visual.proj)
    assert 0 < float(moved[10.0].norm()) < 0.8 * float(moved[0.0].norm())


def test_the_diversity_loss_keeps_the_predictions_of_members_apart(tiny_encoder, colours):
    """KL between the three members of the soup, in the second half of training: the teacher's texts differ."""
    divergence = {}
    for weight in (0.0, 0.5):
        taught = {"kind": "cross_entropy", "lambda": weight, "teacher_logit_scale": 10}
        own = {"loss": CrossEntropyLoss.model_validate(taught)}
        rows = []
        for seed in (1, 2):
            run = trainer(tiny_encoder, colours, "coop_diverse", seed=seed, own=own, iterations=40, log_every=5)
            run.run()
            rows += [row["members_kl"] for row in run.log if row["iteration"] > 20]
        divergence[weight] = sum(rows) / len(rows)
    assert divergence[0.5] > 1.05 * divergence[0.0] > 0


def test_a_methods_own_members_iterations_and_batch_size_win(tiny_encoder, colours):
    own = {"members": 2, "iterations": 3, "batch_size": 2}
    run = trainer(tiny_encoder, colours, "coop_diverse", own=own, iterations=5)
    run.run()
    assert (run.passes.members, run.iteration, run.log[0]["n_images"]) == (2, 3, 2)


CHANGES = [
    {"weight_decay": 0.5},
    {"momentum": 0.0},
    {"logit_scale": 6.0},
    {"batches": "wrapped"},
    {"ema": 0.1},
    {"iterations": 2},
    {"batch_size": 2},
    {"augment": {"crop": [0.5, 0.6], "flip": False}},
]


def test_every_shared_setting_is_changed_below():
    changed = {key for change in CHANGES for key in change}
    no_weights = {"log_every", "methods"}
    assert FinetuneParams.model_fields.keys() - no_weights == changed, (
        "a key of FinetuneParams (wsoup/finetune/params.py) that no test shows to reach the weights: add it to CHANGES"
    )


@pytest.mark.parametrize("change", CHANGES)
def test_every_shared_setting_reaches_the_weights(tiny_encoder, colours, change):
    usual, other = (weights(trainer(tiny_encoder, colours, "coop", **how).run()) for how in ({}, change))
    assert not torch.equal(usual["soft_prompt"], other["soft_prompt"])


def test_the_average_keeps_the_share_ema_of_what_it_was():
    """From 1, with the weights at 5: 0.75 x 1 + 0.25 x 5 = 2; then 0.75 x 2 + 0.25 x 5 = 2.75."""
    parameter = torch.nn.Parameter(torch.tensor([1.0]))
    weights = AveragedWeights({"p": parameter}, share=steady_share(ema=0.75), iterations=2, ensemble=False)
    averages = []
    for iteration in range(2):
        parameter.data.fill_(5.0)
        weights.update(iteration)
        averages.append(float(weights.averages(2)["p"]))
    assert averages == [2.0, 2.75]


def test_an_average_that_keeps_everything_but_a_hundredth_stays_near_the_start(tiny_encoder, colours):
    """With ema = 0.99 the average has moved by one per cent of the first step of the weights."""
    run = trainer(tiny_encoder, colours, "coop", ema=0.99)
    start = run.student.soft_prompt.detach().clone()
    run.step()
    moved = run.student.soft_prompt.detach() - start
    torch.testing.assert_close(run.weights.average["soft_prompt"] - start, 0.01 * moved, rtol=1e-3, atol=1e-7)


def test_a_method_with_a_gaussian_average_evaluates_the_mean_of_its_parts(tiny_encoder, colours, tmp_path: Path):
    """Two parts of two iterations: the weights after 2 and 4, by 1 and exp(-1/2); also after a kill between them."""
    own = {"average": GaussianAverage(parts=2, mean=1, deviation=1)}
    whole, broken, resumed = (trainer(tiny_encoder, colours, "coop", own=own) for _ in range(3))
    kept = []
    for _ in range(4):
        whole.step()
        kept.append(whole.student.soft_prompt.detach().clone())
    later = math.exp(-0.5)
    expected = (kept[1] + later * kept[3]) / (1 + later)
    torch.testing.assert_close(whole.run().soft_prompt, expected)
    for _ in range(3):
        broken.step()
    broken.save(tmp_path / "state")
    assert torch.equal(resumed.run(resume=tmp_path / "state").soft_prompt, whole.student.soft_prompt)


def test_a_loss_that_is_not_finite_is_named_by_its_first_iteration(tiny_encoder, colours, monkeypatch):
    run = trainer(tiny_encoder, colours, "coop")
    monkeypatch.setattr(run.objective, "backward", lambda *_, text_index: (torch.tensor(torch.nan), torch.eye(3, 4)))
    with pytest.raises(ParamsError, match=r"the loss is not finite \(NaN or infinity\) in iteration 1 of 4; lower"):
        run.run()


def test_weights_that_are_not_finite_are_named_although_every_loss_was(tiny_encoder, colours):
    """The last step may leave float32, and no loss comes after it."""
    run = trainer(tiny_encoder, colours, "coop", iterations=1)
    run.step()
    run.weights.average["soft_prompt"].fill_(torch.inf)
    message = r"weights 'soft_prompt' are not finite \(NaN or infinity\) in iteration 1 of 1"
    with pytest.raises(ParamsError, match=message):
        run.run()


def test_image_i_of_a_batch_is_of_column_i_where_the_loss_scores_the_batch_alone(tiny_encoder, colours, monkeypatch):
    run = trainer(tiny_encoder, colours, "prograd")
    monkeypatch.setattr(run.objective, "backward", lambda *_, text_index: (torch.tensor(0.0), torch.eye(3)))
    run.step()
    assert (run.log[0]["n_correct"], run.log[0]["n_images"]) == (3, 3)


@pytest.mark.parametrize("name", ["ce", "coop_diverse", "proda"])
def test_weights_depend_on_the_seed_alone(tiny_encoder, colours, name):
    first, second, other = (trainer(tiny_encoder, colours, name, seed=seed).run() for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first.trained().values(), second.trained().values(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(first.trained().values(), other.trained().values(), strict=True))


def test_random_initial_values_depend_on_the_seed_alone(tiny_encoder, colours):
    first, again, other = (weights(trainer(tiny_encoder, colours, "vpt", seed=seed).student) for seed in (1, 1, 2))
    assert torch.equal(first["visual_prompts"], again["visual_prompts"])
    assert not torch.allclose(first["visual_prompts"], other["visual_prompts"])


@pytest.mark.parametrize(("dtype", "scales"), [(None, False), (torch.bfloat16, False), (torch.float16, True)], ids=str)
def test_losses_are_scaled_in_float16_alone(tiny_encoder, colours, dtype, scales):
    """Its smallest number is 6e-8; bfloat16 has the range of float32."""
    run = trainer(dataclasses.replace(tiny_encoder, dtype=dtype), colours, "coop")
    assert run.scaler.is_enabled() is scales


def test_a_resumed_training_goes_on_with_the_scale_of_its_losses(tiny_encoder, colours, tmp_path: Path):
    run, resumed = (trainer(dataclasses.replace(tiny_encoder, dtype=torch.float16), colours, "coop") for _ in range(2))
    run.scaler.scale(torch.ones(()))
    run.scaler.update(new_scale=64.0)
    run.save(tmp_path / "state")
    resumed.load(tmp_path / "state")
    assert resumed.scaler.get_scale() == 64.0


@pytest.mark.parametrize(
    "name", ["ce", "coop_ensemble_open", "lora_image", "ssf_image", "prograd", "prolip", "promptsrc"]
)
@pytest.mark.parametrize("steps", [2, 3])
def test_a_resumed_training_ends_with_the_same_weights(tiny_encoder, colours, name, steps, tmp_path: Path):
    """Of an ensemble the third of four steps is the first of the second member."""
    whole = trainer(tiny_encoder, colours, name)
    expected = weights(whole.run())
    broken, file = trainer(tiny_encoder, colours, name), tmp_path / "state.safetensors"
    for _ in range(steps):
        broken.step()
    broken.save(file)
    resumed = trainer(tiny_encoder, colours, name)
    resumed_weights = weights(resumed.run(resume=file))
    assert all(torch.equal(resumed_weights[k], expected[k]) for k in expected)
    assert resumed.log == whole.log


ADAM = AdamOptimizer(kind="adamw", weight_decay=0.01)
FALLING = ScheduleParams.model_validate({"kind": "cosine", "warmup": {"parts": 1, "learning_rate": 1e-3}})


@pytest.mark.parametrize("name", ["ce", "coop_ensemble_open", "prograd"])
@pytest.mark.parametrize("steps", [2, 3])
def test_a_resumed_training_goes_on_with_what_adam_keeps_and_with_the_schedule(
    tiny_encoder, colours, name, steps, tmp_path: Path
):
    own = {"optimizer": ADAM, "schedule": FALLING, "ema": 0.0}
    whole, broken, resumed = (trainer(tiny_encoder, colours, name, own=own) for _ in range(3))
    expected = weights(whole.run())
    for _ in range(steps):
        broken.step()
    broken.save(tmp_path / "state")
    ended = weights(resumed.run(resume=tmp_path / "state"))
    assert all(torch.equal(ended[k], expected[k]) for k in expected)


def test_a_methods_own_optimizer_rate_scale_and_average_are_those_of_a_plain_loop(tiny_encoder, colours):
    """ProLIP's way: Adam on the projection at a cosine's rate and its own scale, and the last weights."""
    own = {
        "optimizer": AdamOptimizer(kind="adam", epsilon=1e-4),
        "schedule": ScheduleParams(kind="cosine"),
        "logit_scale": 100.0,
        "ema": 0.0,
        "learning_rate": 1e-3,
        "members": 1,
        "loss": CrossEntropyLoss(kind="cross_entropy"),
    }
    ours = trainer(tiny_encoder, colours, "prolip", own=own, iterations=6)
    start = tiny_encoder.model.visual.proj
    projection = torch.nn.Parameter(start.detach().clone())
    unprojected = copy.deepcopy(tiny_encoder.model.visual)
    unprojected.proj = None
    optimizer = torch.optim.Adam([projection], lr=1e-3, eps=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
    texts = tiny_encoder.encode_texts([f"a photo of a {name}." for name in colours.class_names]).clone()
    for step in range(6):
        pixels, labels = ours.batches.load(step)
        with torch.no_grad():
            embedded = unprojected(ours.batches.images.normalized(pixels))
        images = torch.nn.functional.normalize(embedded @ projection, dim=-1)
        loss = torch.nn.functional.cross_entropy(100 * images @ texts.T, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    moved = ours.run().visual.proj.detach() - start
    assert float(moved.norm()) > 1e-3
    torch.testing.assert_close(moved, projection.detach() - start, rtol=1e-3, atol=2e-6)


def test_what_a_method_names_as_all_have_it_changes_no_bit(tiny_encoder, colours):
    shared = finetune_params()
    same = SgdOptimizer(kind="sgd", momentum=shared.momentum, weight_decay=shared.weight_decay)
    own = {"optimizer": same, "schedule": ScheduleParams(kind="constant"), "logit_scale": 60.0, "ema": shared.ema}
    named, plain = (weights(trainer(tiny_encoder, colours, "ce", own=of).run()) for of in (own, None))
    assert all(torch.equal(named[k], plain[k]) for k in plain)


def test_snapshots_are_copies_of_the_average_and_survive_a_kill(tiny_encoder, colours, tmp_path: Path):
    own = {"snapshots": SnapshotParams(every=2, images=1)}
    whole, broken, resumed = (trainer(tiny_encoder, colours, "coop", own=own, iterations=5) for _ in range(3))
    averages = {}
    for i in range(6):
        averages[i] = whole.weights.average["soft_prompt"].clone()
        if i < 5:
            whole.step()
    assert list(whole.snapshots) == [0, 2, 4, 5]
    assert all(torch.equal(copy["soft_prompt"], averages[i]) for i, copy in whole.snapshots.items())

    for _ in range(3):
        broken.step()
    broken.save(tmp_path / "state")
    resumed.run(resume=tmp_path / "state")
    assert sorted(resumed.snapshots) == [0, 2, 4, 5]
    assert all(torch.equal(copy["soft_prompt"], averages[i]) for i, copy in resumed.snapshots.items())


def test_a_snapshot_of_an_ensemble_has_the_members_that_were_trained_until_then(tiny_encoder, colours):
    """Two members in four iterations: after two of them the second is still where it started."""
    own = {"snapshots": SnapshotParams(every=2, images=1)}
    run = trainer(tiny_encoder, colours, "coop_ensemble", own=own)
    start = run.student.soft_descriptors.detach().clone()
    ended = run.run().soft_descriptors
    half, whole = (run.snapshots[i]["soft_descriptors"] for i in (2, 4))
    assert torch.equal(half[0], ended[0])
    assert torch.equal(half[1], start[1])
    assert torch.equal(whole, ended)


@pytest.mark.parametrize("name", ["ce", "prograd"])
def test_running_out_of_memory_changes_no_weight(tiny_encoder, colours, name, monkeypatch, capsys):
    expected = weights(trainer(tiny_encoder, colours, name).run())
    run = trainer(tiny_encoder, colours, name)
    backward = run.objective.backward

    def small_memory(*arguments, text_index: int):
        if text_index and not run.passes.text_tower.save_memory:
            raise torch.OutOfMemoryError("no room")
        return backward(*arguments, text_index=text_index)

    monkeypatch.setattr(run.objective, "backward", small_memory)
    ended = weights(run.run())
    assert all(torch.equal(ended[k], expected[k]) for k in expected)
    assert capsys.readouterr().err.count("activations are recomputed from now on") == 1
    assert run.passes.text_tower.save_memory
    assert run.passes.image_tower.save_memory
    run.iteration = 0
    monkeypatch.setattr(run.objective, "backward", Mock(side_effect=torch.OutOfMemoryError("no room")))
    with pytest.raises(torch.OutOfMemoryError):  # recomputing has not helped
        run.step()


def test_a_member_of_an_ensemble_begins_with_initial_weights_and_averages():
    """Weight decay moves all descriptors, also those whose turn has not come: from 0 to 8, then from 0 to 2."""
    weights = torch.nn.Parameter(torch.zeros(2, 1, 1))
    averaged = AveragedWeights({SOFT: weights}, share=steady_share(ema=0.5), iterations=4, ensemble=True)
    weights.detach().fill_(8.0)
    averaged.update(1)
    assert [averaged.is_next_descriptor(iteration) for iteration in range(4)] == [False, False, True, False]
    averaged.begin_descriptor(2)
    assert weights.flatten().tolist() == [0, 0]
    weights.detach().fill_(2.0)
    averaged.update(2)
    assert averaged.averages(3)[SOFT].flatten().tolist() == [4, 1]
