"""Training on cuda: every method against the CPU in float32, and under autocast."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from finetune_cases import METHODS, draw_colours, finetune_params
from on_cuda import ON_CUDA, tf32

from wsoup.finetune.train import Trainer
from wsoup.finetune.tuned import load_tuned, pack_student, save_tuned
from wsoup.params.inputs import EncoderParams
from wsoup.towers.encoder import load_encoder

pytestmark = ON_CUDA


@pytest.fixture(scope="module")
def encoder(tiny_encoder_files):
    return load_encoder(EncoderParams(**tiny_encoder_files | {"precision": "reference"}), device=torch.device("cuda"))


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    return draw_colours(tmp_path_factory.mktemp("colours"))


def trainer(encoder, source, name: str) -> Trainer:
    shared = finetune_params()
    return Trainer(encoder, source=source, method=shared.methods[name], shared=shared, seed=1)


def trained(run: Trainer, **options) -> dict[str, torch.Tensor]:
    return {name: p.detach().cpu() for name, p in run.run(**options).trained().items()}


@pytest.mark.parametrize("name", sorted(METHODS.keys() - {"prograd"}))
def test_every_method_ends_with_the_cpus_weights(encoder, tiny_encoder, colours, name):
    """Except ProGrad: it starts as the teacher, so the gradient that it is projected on is only rounding error."""
    with tf32(products=False, convolutions=False):
        here, there = trained(trainer(tiny_encoder, colours, name)), trained(trainer(encoder, colours, name))
    for key, weight in here.items():
        torch.testing.assert_close(there[key], weight, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_takes_steps_under_autocast(encoder, tiny_encoder, colours, name, dtype):
    half = trainer(replace(encoder, dtype=dtype), colours, name)
    weights, exact = trained(half), trainer(tiny_encoder, colours, name)
    exact.run()
    assert all(p.isfinite().all() for p in weights.values())
    assert half.log[0]["loss"] == pytest.approx(exact.log[0]["loss"], rel=0.05)


def test_a_training_resumes(encoder, colours, tmp_path: Path):
    whole = trained(trainer(encoder, colours, "ce"))
    broken, file = trainer(encoder, colours, "ce"), tmp_path / "state.safetensors"
    broken.step()
    broken.step()
    broken.save(file)
    resumed = trained(trainer(encoder, colours, "ce"), resume=file)
    for key, weight in whole.items():
        torch.testing.assert_close(resumed[key], weight, rtol=1e-4, atol=1e-6)


def test_saving_memory_changes_no_weight(encoder, colours):
    kept, saving = trained(trainer(encoder, colours, "ce")), trainer(encoder, colours, "ce")
    saving.passes.save_memory()
    saved = trained(saving)
    for key, weight in kept.items():
        torch.testing.assert_close(saved[key], weight, rtol=1e-4, atol=1e-6)


def test_a_tuned_model_loads_onto_the_device(encoder, colours, tmp_path: Path):
    run = trainer(encoder, colours, "maple")
    student = run.run()
    config = {"method": "maple", "tune": run.method.tune.model_dump(), "encoder": encoder.id, "seed": 1}
    config["template"] = colours.template
    save_tuned(tmp_path / "seed1", packed=pack_student(student, log=run.log, snapshots={}), config=config)
    tuned = load_tuned(tmp_path / "seed1", encoder=encoder)
    pixels = torch.randn(2, 3, 16, 16, device="cuda")
    torch.testing.assert_close(tuned.model.encode_image(pixels), student.encode_image(pixels))
