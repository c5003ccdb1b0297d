"""Text prompts, soft descriptors and adapters behind it are trained on models whose image tower is no ViT."""

from __future__ import annotations

import copy
import dataclasses

import open_clip
import pytest
import torch
from finetune_cases import COMMON, METHODS, draw_colours, finetune_params
from tower_cases import CONFIG, relative_error

from wsoup.base.errors import ModelError
from wsoup.finetune.params import MethodParams
from wsoup.finetune.train import Trainer
from wsoup.finetune.tuned import load_tuned, pack_student, save_tuned

TOWERS = {
    "ResNet": {"image_size": 32, "layers": [1, 1, 1, 1], "width": 8},
    "of timm": {"image_size": 32, "timm_model_name": "resnet10t", "timm_pool": "avg", "timm_proj": "linear"},
}


@pytest.fixture(scope="module", params=list(TOWERS))
def other_encoder(request, tiny_encoder):
    """The tiny encoder with another image tower."""
    config = {**copy.deepcopy(CONFIG), "vision_cfg": TOWERS[request.param]}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = open_clip.model.CLIP(**config).eval().requires_grad_(False)
    preprocess = open_clip.image_transform(32, is_train=False, mean=(0.5,) * 3, std=(0.5,) * 3)
    identity = {**tiny_encoder.id, "model": request.param}
    size = {**tiny_encoder.preprocessing, "size": [32, 32]}
    return dataclasses.replace(tiny_encoder, model=model, preprocess=preprocess, id=identity, preprocessing=size)


@pytest.mark.parametrize("name", ["coop_diverse", "proda", "clip_adapter"])
def test_training_outside_the_image_tower_works_with_any(name, other_encoder, tmp_path):
    method = MethodParams(**{**COMMON, **METHODS[name]})
    source = draw_colours(tmp_path)
    before = {key: value.clone() for key, value in other_encoder.model.state_dict().items()}
    student = Trainer(other_encoder, source=source, method=method, shared=finetune_params(), seed=1).run()
    assert {
        key for key, value in other_encoder.model.state_dict().items() if not torch.equal(value, before[key])
    } == set()
    config = {
        "encoder": other_encoder.id, "method": name, "seed": 1, "template": source.template,
        "tune": method.tune.model_dump(by_alias=True),
    }  # fmt: skip
    save_tuned(tmp_path / "tuned", packed=pack_student(student, log=[]), config=config)
    tuned = load_tuned(tmp_path / "tuned", encoder=other_encoder)
    pixels, texts = torch.randn(2, 3, 32, 32), other_encoder.tokenizer(["a photo of a cat.", "a photo of a dog."])
    images = relative_error(tuned.model.encode_image(pixels), other_encoder.model.encode_image(pixels))
    assert (images < 1e-5) == (name != "clip_adapter")
    changed = relative_error(tuned.model.encode_text(texts), other_encoder.model.encode_text(texts))
    assert (changed > 1e-6) == (name != "clip_adapter")


def test_training_inside_the_image_tower_needs_a_vit(other_encoder, tmp_path):
    method = MethodParams(**{**COMMON, **METHODS["lora"]})
    with pytest.raises(
        ModelError, match=r"found (ModifiedResNet|TimmModel); choose a ViT CLIP, .* or tune.kind prompt"
    ):
        Trainer(other_encoder, source=draw_colours(tmp_path), method=method, shared=finetune_params(), seed=1)
