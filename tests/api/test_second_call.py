"""What a second call with the same model costs: its own passes, and no others; a changed model is prepared anew."""

from __future__ import annotations

import copy
import gc
import weakref

import open_clip
import pytest
import torch
from PIL import Image

import wsoup
from wsoup.core.member import Member
from wsoup.images import vit
from wsoup.texts import tower
from wsoup.towers import kept

PICTURE = Image.new("RGB", (30, 20), "red")


@pytest.fixture
def model(tiny_encoder):
    return copy.deepcopy(tiny_encoder.model)


def encode(model, encoder, **changed) -> torch.Tensor:
    return wsoup.encode_images([PICTURE], model=model, preprocess=encoder.preprocess, progress=False, **changed)


def count(monkeypatch) -> list[str]:
    """Passes through image towers, and packings, as they happen."""
    done: list[str] = []
    for cls, name in ((open_clip.transformer.VisionTransformer, "plain"), (vit.PackedViT, "fast")):
        original = cls.forward

        def forward(self, x, *, original=original, name=name):
            done.append(name)
            return original(self, x)

        monkeypatch.setattr(cls, "forward", forward)
    packed = vit.PackedBlock

    def packing(*args, **kwargs):
        done.append("pack")
        return packed(*args, **kwargs)

    monkeypatch.setattr(vit, "PackedBlock", packing)
    return done


def test_the_second_call_is_one_pass(tiny_encoder, model, monkeypatch):
    done = count(monkeypatch)
    first = encode(model, tiny_encoder)
    assert done.count("plain") == 2, "one on grey, one to compare"
    done.clear()
    assert torch.equal(encode(model, tiny_encoder), first)
    assert done == ["fast"]
    done.clear()
    encode(model, tiny_encoder, precision="bf16")
    assert "plain" in done, "another precision has weights of its own"


def scaled(model):
    with torch.no_grad():
        model.visual.proj.mul_(-1)


def scaled_through_data(model):
    model.visual.transformer.resblocks[0].mlp.c_fc.weight.data.mul_(-3)


def one_row_through_numpy(model):
    model.visual.transformer.resblocks[1].mlp.c_fc.weight.detach().numpy()[5] = 9.0


def a_bias(model):
    model.visual.transformer.resblocks[0].mlp.c_fc.bias.data[3] = 5.0


def loaded(model):
    weights = {name: tensor + 0.3 * torch.randn_like(tensor) for name, tensor in model.state_dict().items()}
    model.load_state_dict(weights)


def assigned(model):
    model.load_state_dict({name: 1 - tensor for name, tensor in model.state_dict().items()}, assign=True)


def another_tower(model):
    model.visual = copy.deepcopy(model.visual)
    scaled(model)


def another_activation(model):
    model.visual.transformer.resblocks[0].mlp.gelu = torch.nn.ReLU()


def another_setting(model):
    model.visual.transformer.resblocks[0].ln_1.eps = 100.0


def trained(model):
    model.requires_grad_(True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.encode_image(torch.rand(1, 3, *model.visual.image_size)).sum().backward()
    optimizer.step()
    model.requires_grad_(False)


CHANGES = [
    scaled,
    scaled_through_data,
    one_row_through_numpy,
    a_bias,
    loaded,
    assigned,
    another_tower,
    another_activation,
    another_setting,
    trained,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_gives_the_features_of_its_new_weights(tiny_encoder, model, change):
    before = encode(model, tiny_encoder)
    encode(model, tiny_encoder)
    change(model)
    after = encode(model, tiny_encoder)
    assert not torch.allclose(after, before, atol=1e-4)
    torch.testing.assert_close(after, encode(copy.deepcopy(model), tiny_encoder), atol=0, rtol=0)


def count_texts(monkeypatch, model) -> list[str]:
    """Calls of a model's `encode_text`, and packings of its text blocks, as they happen."""
    done: list[str] = []
    original = model.encode_text

    def encode_text(*args, **kwargs):
        done.append("plain")
        return original(*args, **kwargs)

    packed = tower.PackedBlock

    def packing(*args, **kwargs):
        done.append("pack")
        return packed(*args, **kwargs)

    monkeypatch.setattr(model, "encode_text", encode_text)
    monkeypatch.setattr(tower, "PackedBlock", packing)
    return done


SOUP = wsoup.Soup("top", 1, "a {}.", {"model": "tiny", "pretrained": None}, (Member("sharp"), Member("which is red")))
SHOTS = torch.nn.functional.normalize(torch.randn(6, 512, generator=torch.Generator().manual_seed(0)), dim=1)


def classifier(model, encoder, **changed) -> torch.Tensor:
    given = {"class_names": ["cat", "dog"], "tokenizer": encoder.tokenizer, "progress": False}
    return SOUP.classifier(model=model, **given, **changed)


def head(model, encoder) -> wsoup.Head:
    features = torch.nn.functional.normalize(SHOTS[:, : model.visual.output_dim], dim=1)
    given = {"class_names": ["a", "b"], "tokenizer": encoder.tokenizer, "progress": False}
    return wsoup.fit_head(features, [0, 1, 0, 1, 0, 1], model=model, **given)


def test_the_second_classifier_or_head_calls_encode_text_no_more(tiny_encoder, model, monkeypatch):
    done = count_texts(monkeypatch, model)
    first = classifier(model, tiny_encoder)
    assert done.count("plain") == 2, "one to see its size, one to compare"
    assert "pack" in done
    done.clear()
    assert torch.equal(classifier(model, tiny_encoder), first)
    head(model, tiny_encoder)
    assert done == []
    classifier(model, tiny_encoder, precision="bf16")
    assert "pack" in done, "another precision has weights of its own"


def test_a_changed_text_tower_gives_the_texts_of_its_new_weights(tiny_encoder, model):
    before = classifier(model, tiny_encoder)
    model.transformer.resblocks[0].mlp.c_fc.weight.data.mul_(-3)
    after = classifier(model, tiny_encoder)
    assert not torch.allclose(after, before, atol=1e-4)
    assert torch.equal(after, classifier(copy.deepcopy(model), tiny_encoder))


def test_another_tokenizer_is_looked_at_again(tiny_encoder, model, monkeypatch):
    done = count_texts(monkeypatch, model)
    classifier(model, tiny_encoder)
    done.clear()
    other = copy.copy(tiny_encoder.tokenizer)
    SOUP.classifier(model=model, class_names=["cat", "dog"], tokenizer=other, progress=False)
    assert done.count("plain") == 2
    assert "pack" not in done


def test_a_hook_that_is_added_is_called(tiny_encoder, model):
    encode(model, tiny_encoder)
    seen = []
    model.visual.ln_post.register_forward_hook(lambda *_: seen.append(1))
    encode(model, tiny_encoder)
    assert seen


@pytest.mark.parametrize("odd", [torch.empty(3, device="meta"), torch.eye(4).to_sparse(), torch.tensor([torch.nan])])
def test_a_tensor_without_values_or_of_another_layout_is_no_obstacle(tiny_encoder, model, odd, monkeypatch):
    model.register_buffer("odd", odd, persistent=False)
    first = encode(model, tiny_encoder)
    done = count(monkeypatch)
    assert torch.equal(encode(model, tiny_encoder), first)
    assert done == ["fast"] or odd.is_sparse, "what cannot be told is prepared at each call"


def test_a_model_that_nobody_holds_is_freed_with_what_was_kept(tiny_encoder):
    model = copy.deepcopy(tiny_encoder.model)
    encode(model, tiny_encoder)
    classifier(model, tiny_encoder)
    gone, key = weakref.ref(model), id(model)
    assert key in kept._kept
    del model
    gc.collect()
    assert gone() is None
    assert key not in kept._kept


def test_two_models_are_kept_and_the_one_used_longest_ago_goes_first(tiny_encoder, monkeypatch):
    first, second, third = (copy.deepcopy(tiny_encoder.model) for _ in range(3))
    for model in (first, second, first, third):
        encode(model, tiny_encoder)
    done = count(monkeypatch)
    encode(first, tiny_encoder)
    assert done == ["fast"]
    encode(second, tiny_encoder)
    assert "plain" in done


def test_the_digest_in_a_head_is_that_of_the_weights_it_was_made_with(tiny_encoder, model):
    features = torch.nn.functional.normalize(torch.randn(6, 16, generator=torch.Generator().manual_seed(0)), dim=1)
    features = torch.nn.functional.normalize(features[:, : model.visual.output_dim], dim=1)
    given = {"model": model, "tokenizer": tiny_encoder.tokenizer, "class_names": ["a", "b"], "progress": False}
    digests = []
    for _ in range(2):
        head = wsoup.fit_head(features, [0, 1, 0, 1, 0, 1], **given)
        digests.append(head.encoder["weights"])
    scaled(model)
    digests.append(wsoup.fit_head(features, [0, 1, 0, 1, 0, 1], **given).encoder["weights"])
    assert digests[0] == digests[1] != digests[2]
