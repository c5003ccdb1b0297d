"""Fast image towers have the features of the original model, alone and where several share their lower blocks."""

from __future__ import annotations

import copy

import pytest
import torch
from open_clip.transform import image_transform
from PIL import Image
from torch import nn
from torchvision.transforms import Compose, RandomErasing, ToTensor
from tower_cases import FAMILIES, model, pixels, relative_error

from wsoup.images.fast import with_fast_images
from wsoup.images.pixels import in_two_steps
from wsoup.images.sharing import sharing_blocks
from wsoup.images.vit import PackedViT, is_covered


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


def finetuned(net: nn.Module, *, blocks: int, seed: int) -> nn.Module:
    """A copy whose last blocks differ, and which shares all others."""
    layers = net.visual.transformer.resblocks
    other = copy.deepcopy(net, memo={id(block): block for block in layers[: len(layers) - blocks]})
    for part in other.visual.transformer.resblocks[len(layers) - blocks :]:
        nn.init.normal_(part.mlp.c_fc.weight, generator=torch.Generator().manual_seed(seed))
    return with_fast_images(other, dtype=None)


def blocks_passed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many blocks each call of `PackedViT.run` passes a batch through, from now on."""
    passed, run = [], PackedViT.run

    def counted(self: PackedViT, x: torch.Tensor, *, first: int, stop: int) -> torch.Tensor:
        passed.append(stop - first)
        return run(self, x, first=first, stop=stop)

    monkeypatch.setattr(PackedViT, "run", counted)
    return passed


def test_models_that_share_lower_blocks_pass_a_batch_through_them_once(monkeypatch):
    net = model()
    models = [finetuned(net, blocks=1, seed=seed) for seed in (1, 2, 3)]
    batches = [pixels(), pixels().flip(0)]
    alone = [features(m, x) for x in batches for m in models]
    passed = blocks_passed(monkeypatch)
    with sharing_blocks(models):
        together = [features(m, x) for x in batches for m in models]
    assert all(map(torch.equal, together, alone)), "byte for byte"
    assert sum(passed) == 2 * 2, "two shared blocks, once a batch"
    assert torch.equal(features(models[1], batches[0]), alone[1])
    assert sum(passed) == 2 * 2 + 2, "outside of the block each is on its own"


def test_models_of_two_methods_share_what_their_own_have_in_common(monkeypatch):
    """Of three blocks one method trains the last, the other the last two; by method two and one are shared."""
    net = model()
    models = [finetuned(net, blocks=blocks, seed=seed) for blocks in (1, 2) for seed in (1, 2)]
    x = pixels()
    alone = [features(m, x) for m in models]
    passed = blocks_passed(monkeypatch)
    with sharing_blocks(models):
        assert all(map(torch.equal, [features(m, x) for m in models], alone)), "byte for byte"
    # The last block is no call of `run`: its class token alone is computed.
    assert sum(passed) == 2 + 1 + 2 * 1, "two shared; one shared, and one for each of two"


def test_models_with_other_patches_share_nothing():
    net = model()
    one, other = (finetuned(net, blocks=1, seed=seed) for seed in (1, 2))
    other.visual.positional_embedding = nn.Parameter(one.visual.positional_embedding + 1)
    x = pixels()
    alone = [features(m, x) for m in (one, other)]
    with sharing_blocks([one, other, nn.Linear(2, 2)]):
        assert all(map(torch.equal, [features(m, x) for m in (one, other)], alone))
