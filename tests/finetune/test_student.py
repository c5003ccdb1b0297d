"""Which models can be finetuned."""

from __future__ import annotations

import open_clip
import pytest
import torch
from tower_cases import model

from wsoup.base.errors import ModelError
from wsoup.finetune.student import check_model


def other_model(name: str) -> torch.nn.Module:
    config = open_clip.get_model_config(name)
    kind = open_clip.model.CustomTextCLIP if "coca" in name else open_clip.model.CLIP
    with torch.device("meta"):
        return kind(config["embed_dim"], config["vision_cfg"], config["text_cfg"])


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: other_model("RN50"), "towers of .* with projections, found ModifiedResNet and CLIP"),
        (lambda: other_model("coca_ViT-B-32"), "a causal text tower that is read at the end of the text"),
        (lambda: model("first token"), "a causal text tower that is read at the end of the text"),
        (lambda: torch.nn.ModuleDict({"visual": model().visual}), "towers of .* VisionTransformer and ModuleDict"),
    ],
)
def test_unsupported_models_are_refused_in_one_line(make, problem):
    with pytest.raises(ModelError, match=rf"^finetuning needs {problem}.*; choose a ViT CLIP") as caught:
        check_model(make())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tower", ["image", "text"])
def test_a_block_with_another_attention_is_named(tower):
    net = model()
    inside = net.visual if tower == "image" else net
    inside.transformer.resblocks[1].attn = open_clip.transformer.Attention(inside.transformer.width, num_heads=2)
    with pytest.raises(ModelError, match=r"towers with standard blocks, found R\w+ \(.*attn Attention"):
        check_model(net)
