"""Batch norms as part of their convolutions: open_clip's ResNet, a tower of timm, and modules with known answers."""

from __future__ import annotations

import copy

import open_clip
import pytest
import torch
from torch import nn

from wsoup.images.convolutions import has_norms, with_folded_norms
from wsoup.images.fast import with_fast_images

TEXT = {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
TOWERS = {
    "ResNet": {"layers": [1, 1, 1, 1], "width": 8, "head_width": 16, "image_size": 64},
    "timm": {"timm_model_name": "mobilenetv2_050", "timm_pool": "avg", "timm_proj": "", "image_size": 64},
}
IMAGES = torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(1))


def net_of(tower: str) -> nn.Module:
    """A small model whose batch norms have constants as after training: none is 0 or 1."""
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = open_clip.model.CLIP(embed_dim=1280 if tower == "timm" else 16, vision_cfg=TOWERS[tower], text_cfg=TEXT)
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1, generator=generator)
            part.running_var.uniform_(0.5, 1.5, generator=generator)
            nn.init.uniform_(part.weight, 0.5, 1.5, generator=generator)
            nn.init.normal_(part.bias, 0, 0.1, generator=generator)
    return net.eval()


@pytest.mark.parametrize("tower", TOWERS)
def test_unit_features_stay_within_a_millionth_and_the_model_is_not_changed(tower):
    net = net_of(tower)
    before = copy.deepcopy(net.state_dict())
    fast = with_fast_images(net, dtype=None)
    with torch.inference_mode():
        expected, features = (each.encode_image(IMAGES, normalize=True) for each in (net, fast))
    assert not has_norms(fast.visual), "every batch norm is part of a convolution"
    assert (features - expected).abs().max() < 1e-6
    assert (expected[0] - expected[1]).abs().max() > 1e-4, "the images differ by more than that"
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


class Tower(nn.Module):
    """Two convolutions, a batch norm, and how they are connected."""

    image_size = 4

    def __init__(self, passes) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 2, 1), nn.Conv2d(3, 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(2)
        self.norm.running_mean.fill_(0.3)
        self.norm.running_var.fill_(4.0 - self.norm.eps)
        self.passes = passes

    def forward(self, x):
        return self.passes(self, x).flatten(1)


def folded(passes) -> nn.Module:
    return with_folded_norms(Tower(passes).eval(), images=torch.randn(1, 3, 4, 4))


def test_a_folded_convolution_by_hand():
    """A mean of 0.3 and a deviation of 2: (w x + b - 0.3) / 2."""
    tower = Tower(lambda self, x: self.norm(self.first(x))).eval()
    fast = with_folded_norms(tower, images=torch.randn(1, 3, 4, 4))
    assert type(fast.norm) is nn.Identity
    assert torch.allclose(fast.first.weight, tower.first.weight / 2)
    assert torch.allclose(fast.first.bias, (tower.first.bias - 0.3) / 2)
    assert fast.second.weight.equal(tower.second.weight), "nothing reads it"


def test_a_norm_of_two_readings_or_of_a_sum_keeps_its_own_pass():
    twice = folded(lambda self, x: self.norm(self.first(x)) + self.norm(self.second(x)))
    of_sum = folded(lambda self, x: self.norm(self.first(x) + self.second(x)))
    assert all(type(tower.norm) is nn.BatchNorm2d for tower in (twice, of_sum))


def test_a_convolution_that_something_else_reads_too_is_found_out_by_its_features():
    """Folded, it would give both readers the norm's values: the comparison with the tower keeps it as it is."""

    def passes(self, x):
        read = self.first(x)
        return self.norm(read) + 3 * read

    net = nn.Module()
    net.visual = Tower(passes).eval()
    assert with_fast_images(net, dtype=None) is net


def test_norms_in_training_and_towers_with_hooks_are_left_alone():
    training, hooked = Tower(lambda self, x: self.norm(self.first(x))), net_of("ResNet").visual
    hooked.conv1.register_forward_hook(lambda *_: None)
    assert not has_norms(training)
    assert not has_norms(hooked)
    assert has_norms(training.eval())
    assert not has_norms(nn.BatchNorm2d(2).eval()), "no size of images is known"
