"""Models whose weights are in half precision: trained weights are float32, and what is loaded is half again."""

from __future__ import annotations

import pytest
import torch
from finetune_cases import METHODS, finetune_params
from torch.nn import functional as F

from wsoup.finetune.train import Trainer
from wsoup.finetune.tuned import load_tuned, pack_student, save_tuned
from wsoup.images.pixels import encode_pixels
from wsoup.params.inputs import EncoderParams
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder, load_encoder
from wsoup.towers.pure import PURE

TEXTS = ["a photo of a red.", "a photo of a blue, ears."]
FAR = {"pure_bf16": 0.15, "pure_fp16": 0.05}
"""Distance of unit features after two large steps in float32 and in half precision."""


@pytest.fixture(scope="module", params=PURE)
def pure(request: pytest.FixtureRequest, tiny_encoder_files: dict[str, str]) -> Encoder:
    params = EncoderParams(**{**tiny_encoder_files, "precision": request.param})
    return load_encoder(params, device=torch.device("cpu"))


def tuned(encoder: Encoder, colours, name: str, folder, *, projects: bool = True) -> Encoder:
    """The model after a training of two iterations, from disk; `projects` is about ProGrad's gradients."""
    shared = finetune_params(iterations=2)
    method = shared.methods[name]
    if not projects:
        method = method.model_copy(update={"loss": method.loss.model_copy(update={"weight": 0.0})})
    run = Trainer(encoder, source=colours, method=method, shared=shared, seed=3)
    run.scaler._init_scale = 1.0  # so that no step is skipped to find the right one
    before = {key: value.clone() for key, value in run.student.trained().items()}
    student = run.run()
    after = student.trained()
    assert {value.dtype for value in after.values()} == {torch.float32}
    assert any(not torch.equal(after[key], before[key]) for key in after)
    config = {"encoder": encoder.id, "method": name, "seed": 3, "tune": run.method.tune.model_dump()}
    packed = pack_student(student, log=run.log, snapshots=run.snapshots)
    save_tuned(folder, packed=packed, config=config | {"template": colours.template})
    return load_tuned(folder, encoder=encoder)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_and_its_model_is_half_again(pure, tiny_encoder, colours, name, tmp_path):
    half = tuned(pure, colours, name, tmp_path / "half")
    whole = tuned(tiny_encoder, colours, name, tmp_path / "whole")
    kinds = {value.dtype for key, value in half.model.state_dict().items() if not key.endswith("logit_scale")}
    assert {kind for kind in kinds if kind.is_floating_point} == {pure.pure}
    if name == "prograd":
        # Its first general gradient is zero but for rounding, and to project on that takes every machine elsewhere.
        half = tuned(pure, colours, name, tmp_path / "half", projects=False)
        whole = tuned(tiny_encoder, colours, name, tmp_path / "whole", projects=False)
    pixels = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    far = FAR[pure.id["precision"]]
    assert (encode_pixels(half, pixels) - encode_pixels(whole, pixels)).norm(dim=-1).max() < far
    texts = [PromptEncoder.of(model).encode(TEXTS) for model in (half, whole)]
    assert (texts[0] - texts[1]).norm(dim=-1).max() < far
    assert pure.model.logit_scale.dtype == torch.float32, "what is shared with the pretrained model stays as it was"


def test_the_frozen_parts_stay_half_and_nothing_is_copied_for_them(pure, colours):
    shared = finetune_params(iterations=1)
    run = Trainer(pure, source=colours, method=shared.methods["coop"], shared=shared, seed=3)
    frozen = {key: value for key, value in run.student.named_parameters() if key not in run.student.trained_names}
    towers = {value.dtype for key, value in frozen.items() if "ln_" not in key and not key.endswith("logit_scale")}
    assert towers == {pure.pure}
    assert run.scaler.is_enabled() == (pure.pure == torch.float16)
    teacher = run.passes.teacher_texts(0)
    tokens = pure.tokenizer([f"a photo of a {name}, {colours.soup[0]}." for name in colours.class_names])
    expected = F.normalize(pure.model.encode_text(tokens).float(), dim=-1)
    assert teacher.shape == expected.shape
