"""Later methods by their authors' code: the same weights from the same starts and batches, the same answers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from finetune_cases import SHARED, draw_colours
from safetensors.torch import load_file
from torch.nn import functional as F

from benchmarks.heads.rivals import clap_weights
from wsoup.evaluate.evaluation import mean_texts
from wsoup.evaluate.rows import Row
from wsoup.evaluate.testsets import TestSet
from wsoup.finetune.params import FinetuneParams, MethodParams
from wsoup.finetune.train import Trainer
from wsoup.heads.fewshot import FewShot
from wsoup.texts.encoder import PromptEncoder

pytestmark = pytest.mark.slow
STEPS = 20
ADAMW = {"kind": "adamw", "weight_decay": 1e-2}
TWO_STAGE: dict[str, Any] = {
    "tune": {"kind": "block_norms", "first_stage": 0.6},
    "loss": {"kind": "cross_entropy"},
    "soup": "class_name",
    "prompt_factor": 1,
    "ema": 0,
    "optimizer": ADAMW,
    "schedule": {"kind": "cosine", "least": 1e-6},
}


@pytest.mark.parametrize(("n_images", "length"), [(40, 1.0), (600, 8.0)])
def test_claps_class_weights_are_its_authors(rivals, n_images, length):
    """300 epochs of one batch of 40 photos' copies, and of two batches of 600's."""
    generator = torch.Generator().manual_seed(1)
    features = F.normalize(torch.randn(n_images, 16, generator=generator).double(), dim=1)
    texts = F.normalize(torch.randn(5, 16, generator=generator).double(), dim=1)
    labels = torch.arange(n_images) % 5
    made = rivals(
        "clap",
        world={"logit_scale": 20.0, "batches": max(1, n_images // 256)},
        tensors={"features": features.float(), "texts": length * texts.float(), "labels": labels},
    )
    draws = np.random.RandomState(0)
    shots = FewShot(features, labels, texts.T.contiguous(), 20.0)
    weights = clap_weights(shots, length=length, order=lambda n_rows: draws.rand(n_rows).argsort())
    theirs = load_file(made / "clap.safetensors")["weights"].double()
    torch.testing.assert_close(weights, theirs, rtol=1e-5, atol=1e-5 * length)
    assert float((F.normalize(weights, dim=1) - texts).norm(dim=1).min()) > 0.01


def test_both_stages_of_2sfs_are_its_authors(rivals, tiny_encoder, tmp_path):
    """Twelve steps of norms and eight of class weights; of the six classes that are asked for four were trained."""
    source = dataclasses.replace(draw_colours(tmp_path), soup=[""])
    scale = float(tiny_encoder.model.logit_scale.exp())
    method = MethodParams(**TWO_STAGE, learning_rate=2e-3, iterations=STEPS, logit_scale=scale)
    shared = FinetuneParams(**SHARED, methods={})
    run = Trainer(tiny_encoder, source=source, method=method, shared=shared, seed=1)
    start = {name: weights.detach().clone() for name, weights in run.student.trained().items()}
    batches = [run.batches.load(step) for step in range(STEPS)]
    pixels = torch.stack([run.batches.images.normalized(of_step) for of_step, _ in batches])
    test = torch.randn(5, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    asked = ["red", "cat", "white", "blue", "old dog", "green"]
    made = rivals(
        "two_stage",
        world={
            "args": {"n_iters": STEPS, "shots": 1, "n_iters_frac": 0.6, "lr": 2e-3, "wd": 1e-2},
            "template": source.template,
            "class_names": list(source.class_names),
            "asked": asked,
        },
        tensors={"pixels": pixels, "labels": torch.stack([labels for _, labels in batches]), "test": test},
    )
    theirs = load_file(made / "two_stage.safetensors")
    student = run.run()
    for name, weights in student.trained().items():
        torch.testing.assert_close(
            weights, theirs[name], rtol=1e-5, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )
        assert float((weights - start[name]).abs().max()) > 1e-3
    nowhere = torch.empty(0)
    tests = [TestSet("any", "xd", source.template, asked, nowhere, nowhere.long(), nowhere.long().numpy(), {})]
    row = Row("class_name", (1,), ("",))
    tuned = dataclasses.replace(tiny_encoder, model=student.merge())
    classifiers = mean_texts([row], tests=tests, text_encoder=PromptEncoder.of(tuned))
    ((_, means),) = classifiers.with_class_weights(row, student.class_directions()).of(tests[0])
    with torch.no_grad():
        logits = scale * F.normalize(student.encode_image(test), dim=-1) @ F.normalize(means, dim=-1).T
    torch.testing.assert_close(logits, theirs["logits"], rtol=1e-5, atol=1e-5 * scale)
