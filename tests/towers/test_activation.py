"""The activation matches the weights, for every (model, tag) of open_clip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import open_clip
import pytest
import torch

from wsoup.base.errors import ModelError
from wsoup.params.inputs import EncoderParams
from wsoup.towers.encoder import load_encoder
from wsoup.towers.models import build, forced_quick_gelu

PAIRS = open_clip.list_pretrained()
SMALL = [
    *[("ViT-B-16", tag) for tag in ("openai", "laion400m_e32", "laion2b_s34b_b88k", "metaclip_400m", "dfn2b")],
    *[("ViT-B-16-quickgelu", tag) for tag in ("openai", "metaclip_400m", "dfn2b")],
    *[("ViT-B-32", tag) for tag in ("openai", "laion400m_e31", "laion2b_e16")],
    *[("RN50", "openai"), ("coca_ViT-B-32", "laion2b_s13b_b90k")],
]
NAMELESS = {"roberta-ViT-B-32"}
"""Models whose configuration asks for QuickGELU, though neither name nor tag does; their only weights need it."""


def encoder(model: str, pretrained: str, **more: Any) -> EncoderParams:
    return EncoderParams(model=model, pretrained=pretrained, precision="fp32", watch="none", **more)


def trained_with_quick_gelu(model: str, tag: str) -> bool:
    return bool(open_clip.get_pretrained_cfg(model, tag).get("quick_gelu")) or model in NAMELESS


def built(model: str, tag: str) -> bool:
    """Whether any activation of the model is QuickGELU, without downloading or allocating weights."""
    with pytest.MonkeyPatch.context() as patch, torch.device("meta"):
        patch.setattr("open_clip.factory.download_pretrained", lambda *_, **__: "weights")
        patch.setattr("open_clip.factory.load_checkpoint", lambda *_, **__: None)
        model_, _ = build(encoder(model, tag), device=torch.device("meta"))
    return any(type(module).__name__ == "QuickGELU" for module in model_.modules())


def test_the_tag_decides_the_activation():
    for model, tag in PAIRS:
        asked = bool((open_clip.get_model_config(model) or {}).get("quick_gelu"))
        assert (asked or forced_quick_gelu(encoder(model, tag))) == trained_with_quick_gelu(model, tag), (model, tag)
    assert sum(trained_with_quick_gelu(model, tag) for model, tag in PAIRS) > 50


@pytest.mark.parametrize(("model", "tag"), SMALL)
def test_a_built_model_has_the_activation_of_its_weights(model, tag):
    assert built(model, tag) == trained_with_quick_gelu(model, tag)


@pytest.mark.slow
def test_every_model_is_built_with_the_activation_of_its_weights():
    for model, tag in PAIRS:
        if "hf_model_name" not in open_clip.get_model_config(model)["text_cfg"]:  # their text towers are on a hub
            assert built(model, tag) == trained_with_quick_gelu(model, tag), (model, tag)


@pytest.mark.parametrize("tag", ["laion2b_s34b_b88k", "datacomp_xl_s13b_b90k"])
def test_a_quickgelu_name_with_weights_trained_with_gelu_is_refused(tag):
    with pytest.raises(ModelError, match=rf"{tag} was trained with GELU, .*; set encoder.model: ViT-B-16$"):
        load_encoder(encoder("ViT-B-16-quickgelu", tag))


def test_a_key_that_contradicts_tag_or_config_is_refused():
    with pytest.raises(ModelError, match="quick_gelu is false, but ViT-B-16 / openai was trained with QuickGELU"):
        load_encoder(encoder("ViT-B-16", "openai", quick_gelu=False))
    with pytest.raises(ModelError, match="quick_gelu is true, but ViT-B-16 / laion400m_e32 was trained with GELU"):
        load_encoder(encoder("ViT-B-16", "laion400m_e32", quick_gelu=True))
    assert forced_quick_gelu(encoder("ViT-B-16", "openai", quick_gelu=True))


def test_for_local_weights_the_key_or_the_config_decides(tiny_encoder_files, tmp_path: Path):
    plain = load_encoder(EncoderParams(**tiny_encoder_files))
    keyed = load_encoder(EncoderParams(**tiny_encoder_files, quick_gelu=True))
    assert (plain.id["quick_gelu"], keyed.id["quick_gelu"]) == (False, True)
    assert plain.id["config"] != keyed.id["config"]
    config = tmp_path / "tiny-quick.json"
    config.write_text(json.dumps({**json.loads(Path(tiny_encoder_files["config"]).read_text()), "quick_gelu": True}))
    quick = {**tiny_encoder_files, "model": "tiny-quick", "config": str(config)}
    assert load_encoder(EncoderParams(**quick)).id["quick_gelu"]
    with pytest.raises(ModelError, match="quick_gelu is false, but the configuration of tiny-quick asks for QuickGELU"):
        load_encoder(EncoderParams(**quick, quick_gelu=False))
