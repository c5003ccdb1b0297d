"""Fast image towers have the features of the original model."""

from __future__ import annotations

import copy

import pytest
import torch
from open_clip.transform import image_transform
from PIL import Image
from torch import nn
from torchvision.transforms import Compose, RandomErasing, ToTensor
from tower_cases import FAMILIES, model, pixels, relative_error

from wsoup.towers.images import PackedViT, in_two_steps, is_covered, with_fast_images


@torch.inference_mode()
def features(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return net.encode_image(x)


@pytest.mark.parametrize("custom", [False, True], ids=["CLIP", "CustomTextCLIP"])
@pytest.mark.parametrize("family", FAMILIES)
def test_features_equal_open_clips_and_the_model_is_not_changed(family, custom):
    net = model(family, custom=custom)
    before, expected = copy.deepcopy(net.state_dict()), features(net, pixels())
    fast = with_fast_images(net, dtype=None)
    assert isinstance(fast.visual, PackedViT)
    assert relative_error(features(fast, pixels()), expected) < 1e-5
    assert not isinstance(net.visual, PackedViT)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert {p.data_ptr() for p in fast.parameters()} == {p.data_ptr() for p in net.parameters()}


def test_under_autocast_features_are_as_close_as_half_precision_allows():
    net = model()
    fast = with_fast_images(net, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert relative_error(features(fast, pixels()), features(net, pixels())) < 2e-2


def test_a_tower_with_hooks_or_other_blocks_is_left_alone():
    class Odd(type(model().visual.transformer.resblocks[0])):
        pass

    hooked, several, odd = model(), model(), model()
    hooked.visual.conv1.register_forward_hook(lambda *_: None)
    several.visual.output_tokens = True
    odd.visual.transformer.resblocks[0].mlp.append(nn.Identity())
    for net in (hooked, several, odd):
        assert not is_covered(net.visual)
        assert with_fast_images(net, dtype=None) is net
    assert with_fast_images(nn.Linear(2, 2), dtype=None).weight.shape == (2, 2)


def test_a_tower_with_wrong_features_falls_back_to_the_original(monkeypatch):
    net = model()
    monkeypatch.setattr(PackedViT, "start", lambda self, x: self._embeds(x).flip(1))
    assert with_fast_images(net, dtype=None) is net


def test_pixels_between_the_two_steps_of_a_preprocessing_are_bytes_and_the_result_is_the_same():
    picture = Image.effect_noise((40, 30), 90)
    own = image_transform(16, is_train=False, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    to_pixels, to_floats = in_two_steps(own)
    pixels = torch.stack([to_pixels(picture)])
    assert pixels.dtype == torch.uint8
    assert torch.equal(to_floats(pixels)[0], own(picture))


def test_any_other_preprocessing_is_one_step():
    own = image_transform(16, is_train=False)
    for other in (lambda image: own(image) / 2, Compose([*own.transforms, RandomErasing()]), Compose([ToTensor()])):
        to_pixels, to_floats = in_two_steps(other)
        assert to_pixels is other
        x = pixels()
        assert to_floats(x) is x
