"""Weights in half precision are open_clip's own, and cost what half precision costs."""

from __future__ import annotations

import open_clip
import pytest
import torch

from wsoup.images.pixels import encode_pixels
from wsoup.params.inputs import EncoderParams
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers import pure as pure_module
from wsoup.towers.encoder import Encoder, load_encoder
from wsoup.towers.pure import PURE

CLOSE = {"pure_bf16": 5e-2, "pure_fp16": 5e-3}
"""Distance of unit features from those in float32."""
TEXTS = ["a photo of a dog.", "a photo of a dog, which barks.", "a red cat"]


def loaded(files: dict[str, str], precision: str) -> Encoder:
    return load_encoder(EncoderParams(**{**files, "precision": precision}), device=torch.device("cpu"))


@pytest.mark.parametrize("precision", PURE)
def test_weights_are_open_clips_own_but_for_the_factor_of_logits(tiny_encoder_files, precision):
    ours = loaded(tiny_encoder_files, precision)
    theirs = open_clip.create_model(
        tiny_encoder_files["model"], pretrained=tiny_encoder_files["pretrained"], precision=precision
    ).eval()
    expected = theirs.state_dict()
    for name, tensor in ours.model.state_dict().items():
        if name == "logit_scale":
            assert tensor.dtype == torch.float32
        else:
            assert tensor.dtype == expected[name].dtype
            assert torch.equal(tensor, expected[name]), name
    pixels = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        features = theirs.encode_image(pixels.to(PURE[precision]), normalize=False).float()
    features = torch.nn.functional.normalize(features, dim=-1)
    assert (encode_pixels(ours, pixels) - features).norm(dim=-1).max() < CLOSE[precision] / 2


@pytest.mark.parametrize("precision", PURE)
def test_features_are_near_those_in_float32_and_the_id_says_which_they_are(tiny_encoder, tiny_encoder_files, precision):
    half = loaded(tiny_encoder_files, precision)
    pixels = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    for features, exact in (
        (encode_pixels(half, pixels), encode_pixels(tiny_encoder, pixels)),
        (half.encode_texts(TEXTS), tiny_encoder.encode_texts(TEXTS)),
        (PromptEncoder.of(half).encode(TEXTS), tiny_encoder.encode_texts(TEXTS)),
    ):
        assert features.dtype == torch.float32
        assert torch.allclose(features.norm(dim=-1), torch.ones(len(features)), atol=1e-5)
        assert 0 < (features - exact).norm(dim=-1).max() < CLOSE[precision]
    assert half.id == {**tiny_encoder.id, "precision": precision}
    assert PromptEncoder.of(half).fast


@pytest.mark.parametrize(("precision", "fast", "warns"), [("pure_bf16", True, False), ("pure_bf16", False, True)])
def test_a_processor_without_such_products_is_named(tiny_encoder_files, monkeypatch, capsys, precision, fast, warns):
    monkeypatch.setattr(pure_module, "has_fast_bf16", lambda: fast)
    loaded(tiny_encoder_files, precision)
    err = capsys.readouterr().err
    assert (f"encoder.precision: {precision} is slower than fp32 on this processor" in err) is warns
    loaded(tiny_encoder_files, "pure_fp16")
    assert "pure_fp16 is slower than fp32" in capsys.readouterr().err
