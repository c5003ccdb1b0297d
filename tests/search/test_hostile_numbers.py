"""NaN and infinity: features, text features and losses are checked where they are computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

from wsoup.base.errors import LONGEST, ModelError, ParamsError
from wsoup.disk.store import read_checked, sha256_file
from wsoup.finetune.data import TrainingSet
from wsoup.finetune.params import FinetuneParams
from wsoup.finetune.train import Trainer
from wsoup.images.features import encode_files
from wsoup.params.inputs import EncoderParams
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder, load_encoder

COLOURS = {"blue": (40, 50, 210), "green": (30, 180, 40), "red": (200, 30, 30)}
SHARED = {
    "iterations": 12,
    "batch_size": 3,
    "momentum": 0.9,
    "weight_decay": 1e-5,
    "logit_scale": 60,
    "ema": 0.5,
    "augment": None,
    "log_every": 5,
}
PLAIN = {"kind": "cross_entropy"}
METHODS = {
    "prompt": ({"kind": "prompt", "tokens": 3}, PLAIN),
    "taught": ({"kind": "prompt", "tokens": 3}, {**PLAIN, "lambda": 0.25, "teacher_logit_scale": 10}),
    "kgcoop": ({"kind": "prompt", "tokens": 2}, {"kind": "kgcoop", "weight": 8}),
    "prograd": ({"kind": "prompt", "tokens": 3}, {"kind": "prograd", "weight": 1}),
    "proda": (
        {"kind": "soft_descriptors", "members": 4, "tokens": 5, "prompt_tokens": 0},
        {"kind": "proda", "per_step": 2, "orthogonality": 0.1},
    ),
    "last_blocks": ({"kind": "last_blocks", "blocks": 1, "prompt_tokens": 3}, PLAIN),
    "margin": ({"kind": "last_blocks", "blocks": 2, "prompt_tokens": 0}, {**PLAIN, "margin": 0.1}),
    "maple": ({"kind": "maple", "tokens": 3, "depth": 2}, PLAIN),
    "visual_prompt": ({"kind": "visual_prompt", "tokens": 2, "depth": 2}, PLAIN),
    "bitfit": ({"kind": "bitfit", "blocks": 2}, PLAIN),
    "lora": ({"kind": "lora", "blocks": 1, "rank": 2}, PLAIN),
    "ssf": ({"kind": "ssf", "blocks": 1}, PLAIN),
    "adapter": (
        {"kind": "adapter", "blocks": 1, "reduction": 4, "ratio": 0.2},
        {"kind": "contrastive", "balance": 0.5},
    ),
    "image_adapter": ({"kind": "image_adapter", "reduction": 4, "ratio": 0.2}, PLAIN),
}


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> TrainingSet:
    root = tmp_path_factory.mktemp("colours")
    for name, colour in COLOURS.items():
        Image.fromarray(np.full((16, 16, 3), colour, dtype=np.uint8)).save(root / f"{name}.png")
    paths = [str(root / f"{name}.png") for name in COLOURS]
    digests = [sha256_file(path) for path in paths]
    labels = np.arange(len(COLOURS))
    return TrainingSet(paths, digests, labels, list(COLOURS), template="a photo of a {}.", soup=["", "sharp"])


def trainer(colours: TrainingSet, encoder: Encoder, *, name: str, **rates: float) -> Trainer:
    tune, loss = METHODS[name]
    method = {"tune": tune, "loss": loss, "soup": "class_name", "learning_rate": 0.01, "prompt_factor": 1, **rates}
    shared = FinetuneParams(**SHARED, methods={name: method})
    return Trainer(encoder, source=colours, method=shared.methods[name], shared=shared, seed=1)


@pytest.mark.parametrize("rate", [pytest.param(1e8, marks=pytest.mark.slow), 1e15])
@pytest.mark.parametrize("name", METHODS)
def test_a_training_that_diverges_names_its_iteration(
    colours: TrainingSet, tiny_encoder: Encoder, name: str, rate: float
) -> None:
    training = trainer(colours, tiny_encoder, name=name, learning_rate=rate, prompt_factor=1e15)
    with pytest.raises(ParamsError, match=r"not finite \(NaN or infinity\) in iteration \d+ of 12; lower") as error:
        training.run()
    assert str(error.value).isprintable()
    assert len(str(error.value)) <= LONGEST


def test_what_a_training_that_diverged_leaves_is_finite(
    tmp_path: Path, colours: TrainingSet, tiny_encoder: Encoder
) -> None:
    state = tmp_path / "state"
    with pytest.raises(ParamsError, match="iteration 2 of 12"):
        trainer(colours, tiny_encoder, name="last_blocks", learning_rate=1e15).run(resume=state, save_seconds=0)
    kept = safetensors.torch.load(read_checked(state))
    assert all(bool(tensor.isfinite().all()) for tensor in kept.values())


def test_an_image_whose_features_are_not_finite_is_named(
    tiny_encoder_files: dict[str, str], colours: TrainingSet
) -> None:
    params = EncoderParams(**{**tiny_encoder_files, "precision": "fp16"}, image_std=(1e-6, 1e-6, 1e-6))
    encoder = load_encoder(params, device=torch.device("cpu"))
    with pytest.raises(ModelError, match=r"blue\.png: its features are not finite"):
        encode_files(
            {"pretrained": encoder}, paths=colours.paths, digests=colours.digests, batch_size=2, on_bad_image="skip"
        )


def test_text_features_that_are_not_finite_are_refused(tiny_encoder_files: dict[str, str]) -> None:
    encoder = load_encoder(EncoderParams(**tiny_encoder_files), device=torch.device("cpu"))
    encoder.model.token_embedding.weight[320] = float("nan")  # type: ignore[index,union-attr]
    texts = PromptEncoder(encoder.model, encoder.tokenizer, device=encoder.device)
    with pytest.raises(ModelError, match="not finite"):
        texts.encode(["a cat"])
    with pytest.raises(ModelError, match="not finite"):
        texts.encode_grid(["a cat"], [".", ", sharp."])
