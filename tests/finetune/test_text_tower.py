"""The trainable text tower against open_clip's."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tower_cases import FAMILIES, clip_tokenizer, gradients, model, relative_error, tokens

from wsoup.base.errors import PoolError
from wsoup.finetune.text_tower import TrainableTextTower

CAUSAL = [name for name, (_, text, _) in FAMILIES.items() if not text.get("no_causal_mask")]


@pytest.mark.parametrize("custom", [False, True], ids=["CLIP", "CustomTextCLIP"])
@pytest.mark.parametrize("family", CAUSAL)
def test_features_and_gradients_equal_open_clips(family, custom):
    net = model(family, custom=custom)
    tower = TrainableTextTower(net)
    features, expected = tower(tower.prepare(tokens())), net.encode_text(tokens())
    assert relative_error(features, expected) < 1e-5
    for ours, theirs in zip(gradients(features, net=net), gradients(expected, net=net), strict=True):
        assert relative_error(ours, theirs) < 1e-5


def test_causal_texts_are_cut_and_share_their_prefix():
    """start, a, photo, of: four positions; the longest text ends at position 14."""
    tower = TrainableTextTower(model())
    texts = tower.prepare(tokens())
    assert (texts.shared, texts.length) == (4, 15)
    assert tower.prepare(tokens(), n_prompt=3, before=2).shared == 2
    single = tower.prepare(tokens()[:1])
    assert single.shared == int(single.ends)  # the end-of-text is not in the prefix, it is read


def test_features_do_not_depend_on_the_other_texts():
    tower = TrainableTextTower(model())
    among = tower(tower.prepare(tokens()))
    alone = torch.cat([tower(tower.prepare(tokens()[i : i + 1])) for i in range(3)])
    torch.testing.assert_close(alone, among, rtol=1e-5, atol=1e-6)
    some = tower(tower.prepare(tokens()).take(torch.tensor([2, 0])))
    torch.testing.assert_close(some, among[[2, 0]], rtol=1e-5, atol=1e-6)


def test_a_prompt_replaces_the_first_tokens():
    """Replacing "a photo of" by the embeddings of "two views from" gives the features of that text."""
    net = model()
    tower, tokenize = TrainableTextTower(net), clip_tokenizer()
    other = tokenize(["two views from a cat.", "two views from a red panda, sky."])
    here = tokenize(["a photo of a cat.", "a photo of a red panda, sky."])
    prompt = net.token_embedding(other[0, 1:4])[None]
    features = tower(tower.prepare(here, n_prompt=3), prompts=prompt)
    torch.testing.assert_close(features, net.encode_text(other), rtol=1e-4, atol=1e-6)


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
    tower = TrainableTextTower(net)
    features = tower(tower.prepare(tokens(), n_prompt=3), prompts=prompts)
    torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-6)


def test_a_text_shorter_than_the_prompt_is_refused():
    with pytest.raises(PoolError, match=r"a text of 2 tokens is shorter than the prompt of 3"):
        TrainableTextTower(model()).prepare(clip_tokenizer()(["cat."]), n_prompt=3)


def test_a_pass_never_waits_for_the_device():
    """Tensors on the meta device have no values that could be waited for."""
    prepared = TrainableTextTower(model()).prepare(tokens())
    texts = replace(prepared, tokens=prepared.tokens.to("meta")).take(torch.tensor([2, 0]))
    assert TrainableTextTower(model().to("meta"))(texts).shape == (2, 16)
