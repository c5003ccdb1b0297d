"""The trainable and the frozen image tower against open_clip's."""

from __future__ import annotations

import pytest
import torch
from tower_cases import FAMILIES, gradients, model, pixels, relative_error

from wsoup.finetune.image_tower import FrozenImageTower, TrainableImageTower


@pytest.mark.parametrize("custom", [False, True], ids=["CLIP", "CustomTextCLIP"])
@pytest.mark.parametrize("family", FAMILIES)
def test_features_and_gradients_equal_open_clips(family, custom):
    net = model(family, custom=custom)
    features, expected = TrainableImageTower(net)(pixels()), net.encode_image(pixels())
    assert relative_error(features, expected) < 1e-5
    for ours, theirs in zip(gradients(features, net=net), gradients(expected, net=net), strict=True):
        assert relative_error(ours, theirs) < 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_the_frozen_image_tower_equals_open_clips(family):
    net = model(family)
    tower = FrozenImageTower(net, dtype=None)
    with torch.no_grad():
        assert relative_error(tower(pixels()), net.encode_image(pixels())) < 1e-5
        half_way = tower.run(tower.start(pixels()), first=0, stop=1)
        assert relative_error(half_way, TrainableImageTower(net).run(tower.start(pixels()), first=0, stop=1)) < 1e-5


def test_visual_prompts_are_inserted_and_replaced_before_each_block():
    net, prompts = model(), torch.randn(3, 2, 32, generator=torch.Generator().manual_seed(3))
    x = net.visual._embeds(pixels())
    x = torch.cat([x[:, :1], prompts[0].expand(3, -1, -1), x[:, 1:]], dim=1)
    for i, block in enumerate(net.visual.transformer.resblocks):
        if i:
            x[:, 1:3] = prompts[i]
        x = block(x)
    expected = net.visual.ln_post(x[:, 0]) @ net.visual.proj
    torch.testing.assert_close(TrainableImageTower(net)(pixels(), prompts=prompts), expected, rtol=1e-4, atol=1e-6)
