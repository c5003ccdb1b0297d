"""Training: every method takes reproducible steps and changes nothing that it does not train."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from finetune_cases import METHODS, finetune_params

from wsoup.base.errors import ParamsError
from wsoup.finetune.params import SnapshotParams
from wsoup.finetune.train import Trainer


def trainer(encoder, source, name, *, seed=1, **changes) -> Trainer:
    shared = finetune_params(**changes)
    return Trainer(encoder, source=source, method=shared.methods[name], shared=shared, seed=seed)


def stored(run: Trainer) -> set[str]:
    """Names of the stored parameters; others that were trained are restored."""
    return {*run.student.stored_names}


def weights(student) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in student.trained().items()}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_moves_what_it_trains_and_nothing_else(tiny_encoder, colours, name):
    pretrained = {k: v.clone() for k, v in tiny_encoder.model.state_dict().items()}
    run = trainer(tiny_encoder, colours, name, iterations=5)
    before = weights(run.student)
    frozen = {k: v.clone() for k, v in run.student.named_parameters() if k not in before or k not in stored(run)}
    student = run.run()
    assert all(torch.equal(v, tiny_encoder.model.state_dict()[k]) for k, v in pretrained.items())
    assert all(torch.equal(v, student.get_parameter(k)) for k, v in frozen.items())
    after = weights(student)
    assert any(not torch.equal(after[k], before[k]) for k in before)
    assert all(torch.isfinite(v).all() for v in after.values())
    assert [line["iteration"] for line in run.log] == [0, 2, 4, 5]


def test_a_methods_own_members_iterations_and_batch_size_win(tiny_encoder, colours):
    shared = finetune_params(iterations=5)
    method = shared.methods["coop_diverse"].model_copy(update={"members": 2, "iterations": 3, "batch_size": 2})
    run = Trainer(tiny_encoder, source=colours, method=method, shared=shared, seed=1)
    run.run()
    assert (run.passes.members, run.iteration, run.log[0]["n_images"]) == (2, 3, 2)


@pytest.mark.parametrize(
    "change", [{"weight_decay": 0.5}, {"momentum": 0.0}, {"logit_scale": 6.0}, {"batches": "wrapped"}, {"ema": 0.1}]
)
def test_every_shared_setting_reaches_the_weights(tiny_encoder, colours, change):
    usual, other = (weights(trainer(tiny_encoder, colours, "coop", **how).run()) for how in ({}, change))
    assert not torch.equal(usual["soft_prompt"], other["soft_prompt"])


def test_a_loss_that_is_not_finite_is_named_by_its_first_iteration(tiny_encoder, colours, monkeypatch):
    run = trainer(tiny_encoder, colours, "coop")
    monkeypatch.setattr(run.objective, "backward", lambda *_, iteration: (torch.tensor(torch.nan), torch.eye(3, 4)))
    with pytest.raises(ParamsError, match=r"the loss is not finite \(NaN or infinity\) in iteration 1 of 4; lower"):
        run.run()


def test_image_i_of_a_batch_is_of_column_i_where_the_loss_scores_the_batch_alone(tiny_encoder, colours, monkeypatch):
    run = trainer(tiny_encoder, colours, "prograd")
    monkeypatch.setattr(run.objective, "backward", lambda *_, iteration: (torch.tensor(0.0), torch.eye(3)))
    run.step()
    assert (run.log[0]["n_correct"], run.log[0]["n_images"]) == (3, 3)


@pytest.mark.parametrize("name", ["ce", "coop_diverse", "proda"])
def test_weights_depend_on_the_seed_alone(tiny_encoder, colours, name):
    first, second, other = (trainer(tiny_encoder, colours, name, seed=seed).run() for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first.trained().values(), second.trained().values(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(first.trained().values(), other.trained().values(), strict=True))


@pytest.mark.parametrize("name", ["ce", "coop_ensemble_open", "lora_image", "ssf_image", "prograd"])
def test_a_resumed_training_ends_with_the_same_weights(tiny_encoder, colours, name, tmp_path: Path):
    whole = trainer(tiny_encoder, colours, name)
    expected = weights(whole.run())
    broken, file = trainer(tiny_encoder, colours, name), tmp_path / "state.safetensors"
    broken.step()
    broken.step()
    broken.save(file)
    resumed = trainer(tiny_encoder, colours, name)
    resumed_weights = weights(resumed.run(resume=file))
    assert all(torch.equal(resumed_weights[k], expected[k]) for k in expected)
    assert resumed.log == whole.log


def test_snapshots_are_copies_of_the_average_and_survive_a_kill(tiny_encoder, colours, tmp_path: Path):
    def with_snapshots() -> Trainer:
        run = trainer(tiny_encoder, colours, "coop", iterations=5)
        run.method = run.method.model_copy(update={"snapshots": SnapshotParams(every=2, images=1)})
        run.snapshots = {}
        run._keep_snapshot()
        return run

    whole, averages = with_snapshots(), {}
    for i in range(6):
        averages[i] = whole.average["soft_prompt"].clone()
        if i < 5:
            whole.step()
    assert list(whole.snapshots) == [0, 2, 4, 5]
    assert all(torch.equal(copy["soft_prompt"], averages[i]) for i, copy in whole.snapshots.items())

    broken, file = with_snapshots(), tmp_path / "state.safetensors"
    for _ in range(3):
        broken.step()
    broken.save(file)
    resumed = with_snapshots()
    resumed.run(resume=file)
    assert list(resumed.snapshots) == [0, 2, 4, 5]
    assert all(
        torch.equal(resumed.snapshots[i]["soft_prompt"], whole.snapshots[i]["soft_prompt"])
        for i in averages
        if i in (0, 2, 4, 5)
    )


def test_the_average_follows_its_closed_form(tiny_encoder, colours):
    """After n steps: b^n w_0 + (1 - b) sum_i b^(n - i) w_i."""
    run, b = trainer(tiny_encoder, colours, "coop", ema=0.9), 0.9
    history = [run.student.soft_prompt.detach().double().clone()]
    for _ in range(3):
        run.step()
        history.append(run.student.soft_prompt.detach().double().clone())
    closed = b**3 * history[0] + (1 - b) * sum(b ** (3 - i) * history[i] for i in (1, 2, 3))
    torch.testing.assert_close(run.average["soft_prompt"].double(), closed, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["ce", "prograd"])
def test_running_out_of_memory_changes_no_weight(tiny_encoder, colours, name, monkeypatch, capsys):
    expected = weights(trainer(tiny_encoder, colours, name).run())
    run = trainer(tiny_encoder, colours, name)
    backward = run.objective.backward

    def small_memory(*arguments, iteration: int):
        if iteration and not run.passes.text_tower.save_memory:
            raise torch.OutOfMemoryError("no room")
        return backward(*arguments, iteration=iteration)

    monkeypatch.setattr(run.objective, "backward", small_memory)
    ended = weights(run.run())
    assert all(torch.equal(ended[k], expected[k]) for k in expected)
    assert capsys.readouterr().err.count("activations are recomputed from now on") == 1


def test_too_little_memory_even_with_recomputation_is_an_error(tiny_encoder, colours, monkeypatch):
    run = trainer(tiny_encoder, colours, "ce")

    def no_memory(*arguments, iteration: int):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(run.objective, "backward", no_memory)
    with pytest.raises(torch.OutOfMemoryError):
        run.run()
