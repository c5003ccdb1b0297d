"""The differentiable towers against open_clip's own, features and gradients."""

from __future__ import annotations

import copy
import json
from typing import Any

import open_clip
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from wsoup.errors import ModelError, PoolError
from wsoup.finetune.forward import ImageTower, TextTower, check_model
from wsoup.finetune.frozen import FrozenImageTower

TEXTS = ["a photo of a cat.", "a photo of a red panda, which has claws, ears.", "a photo of an owl, sky."]
CONFIG: dict[str, Any] = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 16, "layers": 3, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 3},
}
FAMILIES = {
    "clip": ({}, {}, False),
    "quickgelu, layer scale": ({"ls_init_value": 0.1}, {"ls_init_value": 0.1}, True),
    "average pooling, text eos": ({"pool_type": "avg"}, {"pool_type": "eos", "eos_id": 49407}, False),
    "attention pooling": ({"attentional_pool": True, "attn_pooler_heads": 2, "attn_pooler_queries": 3}, {}, False),
    "norm last, not causal": ({"final_ln_after_pool": True}, {"no_causal_mask": True, "pool_type": "last"}, False),
    "first token": ({}, {"no_causal_mask": True, "pool_type": "first"}, False),
}  # fmt: skip


def model(family: str = "clip", *, custom: bool = False) -> nn.Module:
    vision, text, quick = FAMILIES[family]
    config = copy.deepcopy(CONFIG)
    config["vision_cfg"].update(vision)
    config["text_cfg"].update(text)
    kind = open_clip.model.CustomTextCLIP if custom else open_clip.model.CLIP
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(**config, quick_gelu=quick).eval()


def pixels() -> torch.Tensor:
    return torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def tokens() -> torch.Tensor:
    return open_clip.get_tokenizer("ViT-B-32")(TEXTS)


def closeness(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((found - expected).abs().max() / expected.abs().max()).detach())


@pytest.mark.parametrize("custom", [False, True], ids=["CLIP", "CustomTextCLIP"])
@pytest.mark.parametrize("family", FAMILIES)
def test_features_and_gradients_are_open_clips(family, custom):
    net, texts = model(family, custom=custom), tokens()
    target = F.normalize(torch.randn(3, 16, generator=torch.Generator().manual_seed(2)), dim=-1)

    def gradients(images: torch.Tensor, words: torch.Tensor) -> list[torch.Tensor]:
        loss = (F.normalize(images, dim=-1) * target).sum() + (F.normalize(words, dim=-1) * target).sum()
        used = [p for p in net.parameters() if p.requires_grad and p.ndim]
        return [g for g in torch.autograd.grad(loss, used, allow_unused=True) if g is not None]

    tower = TextTower(net)
    ours = ImageTower(net)(pixels()), tower(tower.prepare(texts))
    plain = net.encode_image(pixels()), net.encode_text(texts)
    assert closeness(ours[0], plain[0]) < 1e-5
    assert closeness(ours[1], plain[1]) < 1e-5
    for found, expected in zip(gradients(*ours), gradients(*plain), strict=True):
        assert closeness(found, expected) < 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_the_frozen_image_tower_is_open_clips_with_packed_weights(family):
    net = model(family)
    tower = FrozenImageTower(net, dtype=None)
    assert len(tower.packed) == 3
    with torch.no_grad():
        assert closeness(tower(pixels()), net.encode_image(pixels())) < 1e-5
        half_way = tower.run(tower.start(pixels()), first=0, stop=1)
        assert closeness(half_way, ImageTower(net).run(tower.start(pixels()), first=0, stop=1)) < 1e-5


def test_under_autocast_the_frozen_image_tower_packs_nothing():
    net = model()
    tower = FrozenImageTower(net, dtype=torch.bfloat16)
    assert not tower.packed
    with torch.no_grad():
        assert torch.equal(tower(pixels()), ImageTower(net)(pixels()))


def test_causal_texts_are_cut_and_their_common_beginning_is_shared():
    """start, a, photo, of: four positions; the longest text ends at position 14."""
    tower = TextTower(model())
    texts = tower.prepare(tokens())
    assert (texts.shared, texts.length) == (4, 15)
    assert tower.prepare(tokens(), n_prompt=3, before=2).shared == 2
    single = tower.prepare(tokens()[:1])
    assert single.shared == int(single.ends)  # the end-of-text itself stays, it is read


def test_a_text_that_is_not_causal_is_neither_cut_nor_shared():
    texts = TextTower(model("first token")).prepare(tokens())
    assert (texts.shared, texts.length) == (0, 77)


def test_one_text_alone_has_the_features_it_has_among_others():
    tower = TextTower(model())
    among = tower(tower.prepare(tokens()))
    alone = torch.cat([tower(tower.prepare(tokens()[i : i + 1])) for i in range(3)])
    torch.testing.assert_close(alone, among, rtol=1e-5, atol=1e-6)
    some = tower(tower.prepare(tokens()).take(torch.tensor([2, 0])))
    torch.testing.assert_close(some, among[[2, 0]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", ["clip", "first token"])
def test_prompts_laid_over_a_text_are_other_tokens(family):
    """Laying the embeddings of "two views from" over "a photo of" gives the features of that text."""
    net = model(family)
    tower, tokenize = TextTower(net), open_clip.get_tokenizer("ViT-B-32")
    other = tokenize(["two views from a cat.", "two views from a red panda, sky."])
    here = tokenize(["a photo of a cat.", "a photo of a red panda, sky."])
    prompt = net.token_embedding(other[0, 1:4])[None]
    found = tower(tower.prepare(here, n_prompt=3), prompts=prompt)
    torch.testing.assert_close(found, net.encode_text(other), rtol=1e-4, atol=1e-6)


def test_deep_prompts_are_replaced_before_each_block():
    """Against the blocks run one by one, at the full context."""
    net, prompts = model(), torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(3))
    x = net.token_embedding(tokens())
    x[:, 1:4] = prompts[0]
    x = x + net.positional_embedding
    for i, block in enumerate(net.transformer.resblocks):
        if i == 1:
            x[:, 1:4] = prompts[1]
        x = block(x, attn_mask=net.attn_mask)
    expected = net.ln_final(x)[torch.arange(3), tokens().argmax(dim=1)] @ net.text_projection
    tower = TextTower(net)
    found = tower(tower.prepare(tokens(), n_prompt=3), prompts=prompts)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_visual_prompts_join_the_patches_and_are_replaced_before_each_block():
    net, prompts = model(), torch.randn(3, 2, 32, generator=torch.Generator().manual_seed(3))
    x = net.visual._embeds(pixels())
    x = torch.cat([x[:, :1], prompts[0].expand(3, -1, -1), x[:, 1:]], dim=1)
    for i, block in enumerate(net.visual.transformer.resblocks):
        if i:
            x[:, 1:3] = prompts[i]
        x = block(x)
    expected = net.visual.ln_post(x[:, 0]) @ net.visual.proj
    torch.testing.assert_close(ImageTower(net)(pixels(), prompts=prompts), expected, rtol=1e-4, atol=1e-6)


def test_saving_memory_changes_no_gradient():
    net, texts = model(), tokens()

    def gradient(save_memory: bool) -> torch.Tensor:
        tower = TextTower(net, save_memory=save_memory)
        images = ImageTower(net, save_memory=save_memory)(pixels())
        loss = (images * tower(tower.prepare(texts))).sum()
        return torch.autograd.grad(loss, [net.visual.class_embedding])[0]

    assert torch.equal(gradient(True), gradient(False))


def test_a_text_shorter_than_the_prompt_is_refused():
    with pytest.raises(PoolError, match=r"a text of 2 tokens is shorter than the prompt of 3"):
        TextTower(model()).prepare(open_clip.get_tokenizer("ViT-B-32")(["cat."]), n_prompt=3)


@pytest.mark.parametrize("name", ["RN50", "coca_ViT-B-32", "ViT-B-16-SigLIP"])
def test_other_models_are_refused_in_one_line(name):
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
        check_model(net)
    assert "\n" not in str(caught.value)
    assert json.dumps(str(caught.value))
