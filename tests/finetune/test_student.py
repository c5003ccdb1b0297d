"""Which models can be finetuned."""

from __future__ import annotations

import json

import open_clip
import pytest
import torch
from torch import nn
from tower_cases import model

from wsoup.base.errors import ModelError
from wsoup.finetune.student import check_model


@pytest.mark.parametrize("name", ["RN50", "coca_ViT-B-32", "ViT-B-16-SigLIP"])
def test_unsupported_models_are_refused_in_one_line(name):
    config = open_clip.get_model_config(name)
    with torch.device("meta"):
        if name == "coca_ViT-B-32":
            net = open_clip.model.CustomTextCLIP(512, config["vision_cfg"], config["text_cfg"])
        elif name == "RN50":
            net = open_clip.model.CLIP(config["embed_dim"], config["vision_cfg"], config["text_cfg"])
        else:
            net = nn.Module()
            net.visual, net.text = nn.Linear(1, 1), open_clip.transformer.TextTransformer(layers=1, width=64)
    with pytest.raises(ModelError, match=r"^finetuning needs an? \w+ tower .* choose a ViT CLIP") as caught:
        check_model(net, inside_images=True)
    assert "\n" not in str(caught.value)
    assert json.dumps(str(caught.value))


def test_training_texts_alone_takes_any_image_tower():
    with torch.device("meta"):
        config = open_clip.get_model_config("RN50")
        check_model(open_clip.model.CLIP(**_towers(config)), inside_images=False)
        net = open_clip.model.CustomTextCLIP(**_towers(open_clip.get_model_config("coca_ViT-B-32")))
    with pytest.raises(ModelError, match=r"text tower without class token"):
        check_model(net, inside_images=False)


def _towers(config: dict) -> dict:
    return {name: config[name] for name in ("embed_dim", "vision_cfg", "text_cfg")}


@pytest.mark.parametrize("tower", ["image", "text"])
def test_a_block_with_another_attention_is_named(tower):
    net = model()
    inside = net.visual if tower == "image" else net
    inside.transformer.resblocks[1].attn = open_clip.transformer.Attention(inside.transformer.width, num_heads=2)
    with pytest.raises(ModelError, match=rf"an? {tower} tower with standard blocks, found R\w+ \(.*attn Attention"):
        check_model(net, inside_images=True)
