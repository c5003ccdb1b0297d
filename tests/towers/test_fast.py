"""Fast image towers have the features of the original model."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from wsoup.core.packed import _PackedConvolution
from wsoup.towers.encoder import random_model
from wsoup.towers.fast import _FirstRow, _OneQuery, with_fast_images


def features(model: nn.Module, pixels: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return F.normalize(model.encode_image(pixels), dim=-1)


@pytest.fixture
def vit(tiny_encoder) -> nn.Module:
    return tiny_encoder.model


def pixels_of(model: nn.Module) -> torch.Tensor:
    size = model.visual.image_size
    height, width = (size, size) if isinstance(size, int) else size
    return torch.randn(3, 3, height, width, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_the_last_block_of_a_vit_computes_only_its_class_token(vit, dtype):
    fast, pixels, plain = with_fast_images(vit, dtype=dtype), pixels_of(vit), vit.visual.transformer.resblocks[-1]
    assert isinstance(fast.visual.transformer.resblocks[-1], _FirstRow)
    assert type(plain) is not _FirstRow, "the model itself is not changed"
    assert (features(fast, pixels) - features(vit, pixels)).norm(dim=1).max() < 2e-6
    assert fast.visual.transformer.resblocks[-1](torch.randn(2, 5, plain.attn.embed_dim)).shape[1] == 1


def test_a_vit_with_another_pooling_is_not_changed(vit):
    for name, value in (("pool_type", "avg"), ("output_tokens", True), ("attn_pool", nn.Identity())):
        other = copy.deepcopy(vit)
        setattr(other.visual, name, value)
        assert with_fast_images(other, dtype=torch.bfloat16) is other, name


def test_a_nonstandard_block_is_not_changed(vit):
    class Odd(type(vit.visual.transformer.resblocks[-1])):
        def forward(self, x, *_, **__):
            return x.flip(1)

    odd = copy.deepcopy(vit)
    odd.visual.transformer.resblocks[-1].__class__ = Odd
    assert with_fast_images(odd, dtype=torch.bfloat16) is odd


def test_a_tower_with_wrong_features_falls_back_to_the_original(vit, monkeypatch):
    def wrong(self, x, *_, **__):
        return x[:, 1:2]

    monkeypatch.setattr(_FirstRow, "forward", wrong)
    assert with_fast_images(vit, dtype=torch.bfloat16).visual is vit.visual
    pixels = pixels_of(vit)
    torch.testing.assert_close(features(with_fast_images(vit, dtype=None), pixels), features(vit, pixels))


def test_batch_norms_of_a_resnet_are_folded():
    model, _ = random_model("RN50", seed=0)
    model.visual = small_resnet()
    generator = torch.Generator().manual_seed(1)
    for part in model.visual.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.copy_(0.1 * torch.randn(part.num_features, generator=generator))
            part.running_var.copy_(torch.rand(part.num_features, generator=generator) + 0.5)
    fast, pixels = with_fast_images(model, dtype=None), pixels_of(model)
    assert (features(fast, pixels) - features(model, pixels)).norm(dim=1).max() < 2e-6
    assert not [part for part in fast.visual.modules() if isinstance(part, nn.BatchNorm2d)]
    assert type(with_fast_images(model, dtype=torch.bfloat16).visual.attnpool) is _OneQuery
    assert [part for part in fast.visual.modules() if isinstance(part, _PackedConvolution)]


def small_resnet() -> nn.Module:
    from open_clip.modified_resnet import ModifiedResNet

    return ModifiedResNet((1, 2, 1, 1), output_dim=32, heads=4, image_size=64, width=16).eval().requires_grad_(False)
