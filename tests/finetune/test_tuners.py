"""What is trained: how many parameters, their initial values, and that merging changes nothing."""

from __future__ import annotations

from contextlib import nullcontext

import open_clip
import pytest
import torch
from finetune_cases import METHODS, finetune_params
from pydantic import TypeAdapter
from small_world import TINY_CONFIG
from torch.nn import functional as F
from tower_cases import clip_tokenizer

from wsoup.base.errors import ModelError, ParamsError, PoolError
from wsoup.finetune.blocks import Bottleneck, LowRank, LowRankQkv, ScaleShift
from wsoup.finetune.optimizer import make_optimizer
from wsoup.finetune.starts import check_templates
from wsoup.finetune.student import Student, insert_descriptor
from wsoup.finetune.tune_params import TuneParams
from wsoup.finetune.tuners import make_student

TEMPLATE = "a photo of a {}."
KINDS = TypeAdapter(TuneParams)
EXACT_AT_START = {*("ce", "clipood", "coop", "coop_diverse", "coop_smooth", "kgcoop", "prograd")}
EXACT_AT_START |= {"bitfit", "lora", "bitfit_image", "lora_image", "prolip", "clip_lora", "two_stage", "both_stages"}
PLAIN_WHEN_MERGED = {"lora", "ssf", "bitfit", "clipood", "prolip", "clip_lora", "two_stage", "both_stages"}
"""Those whose inner model is then a plain one, equal to the student."""
TEXTS = ["a photo of a cat.", "a photo of a red panda, which has claws."]


def made(net, tune, *, template: str = TEMPLATE, seed: int = 0, words=(), soup=()) -> Student:
    """A student of a model with the tokenizer of all CLIPs; `tune` as in params.yaml, or the name of a test case."""
    tune = finetune_params().methods[tune].tune if isinstance(tune, str) else KINDS.validate_python(tune)
    how = {"tokenizer": clip_tokenizer(), "tune": tune, "template": template, "words": words}
    return make_student(net, generator=torch.Generator().manual_seed(seed), soup=soup, **how)


def student(encoder, name: str, *, seed: int = 0) -> Student:
    return made(encoder.model, name, seed=seed)


def pixels() -> torch.Tensor:
    return torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", METHODS)
def test_an_untrained_student_equals_the_pretrained_model_where_it_should(tiny_encoder, name):
    untrained, tokens = student(tiny_encoder, name), tiny_encoder.tokenizer(TEXTS)
    images = F.cosine_similarity(untrained.encode_image(pixels()), tiny_encoder.model.encode_image(pixels()))
    texts = F.cosine_similarity(untrained.encode_text(tokens), tiny_encoder.model.encode_text(tokens))
    same = bool((images > 1 - 1e-6).all() and (texts > 1 - 1e-6).all())
    assert same == (name in EXACT_AT_START)
    assert untrained.tunes_images or bool((images > 1 - 1e-6).all())
    of_images = ("model.visual.", "visual_prompts", "image_adapter", "projector")
    assert untrained.tunes_images == any(stored.startswith(of_images) for stored in untrained.stored_names)


@pytest.mark.parametrize("name", METHODS)
def test_merging_changes_no_feature_and_leaves_plain_weights(tiny_encoder, name):
    untrained, tokens = student(tiny_encoder, name), tiny_encoder.tokenizer(TEXTS)
    with torch.no_grad():
        for parameter in untrained.trained().values():  # as if trained: no scale is one and no update zero
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)))
        before = untrained.encode_image(pixels()), untrained.encode_text(tokens)
        merged = untrained.merge()
        torch.testing.assert_close(merged.encode_image(pixels()), before[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(merged.encode_text(tokens), before[1], rtol=1e-5, atol=1e-6)
        if name in PLAIN_WHEN_MERGED:
            plain = merged.model
            torch.testing.assert_close(plain.encode_image(pixels()), before[0], rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(plain.encode_text(tokens), before[1], rtol=1e-4, atol=1e-6)
    assert not any("parametrizations" in key for key in merged.state_dict())
    assert not any(p.requires_grad for p in merged.parameters())


PAPER = [  # the column "parameters" of the paper's table, where it counts what we count
    ({"kind": "prompt", "tokens": 1}, 512),
    ({"kind": "prompt", "tokens": 3}, 3 * 512),
    ({"kind": "visual_prompt", "tokens": 1, "depth": 1}, 768),
    ({"kind": "visual_prompt", "tokens": 3, "depth": 3}, 9 * 768),
    ({"kind": "maple", "tokens": 3, "depth": 1}, 395_520),  # 396k
    ({"kind": "maple", "tokens": 3, "depth": 3}, 395_520 + 2 * 3 * 512),  # 399k
    ({"kind": "independent_prompts", "tokens": 3, "depth": 3}, 9 * (768 + 512)),
    ({"kind": "independent_prompts", "tokens": 4, "depth": 1}, 4 * (768 + 512)),
    ({"kind": "image_adapter", "reduction": 4, "ratio": 0.2}, 131_072),
    ({"kind": "image_adapter", "reduction": 128, "ratio": 0.2}, 4_096),
    ({"kind": "soft_descriptors", "members": 4, "tokens": 10, "prompt_tokens": 0}, 20_480),
    ({"kind": "soft_descriptors", "members": 32, "tokens": 10, "prompt_tokens": 3}, 163_840 + 1_536),
    # q, k and v in three blocks of both towers; in all twelve, as CLIP-LoRA has it, 184,320: its paper's 0.18 million.
    ({"kind": "clip_lora", "blocks": 3, "rank": 2}, 3 * 3 * 2 * 2 * (768 + 512)),
    # Two norms in each of three blocks of both towers, each of a weight and a bias.
    ({"kind": "block_norms"}, 2 * 2 * 3 * (768 + 512)),
    ({"kind": "image_projection"}, 768 * 512),  # ProLIP's own count: 0.39 million (its README)
    # The paper counts the visual blocks twice and no text block: 17k, 18k, 12k and 55k. Both towers once:
    ({"kind": "bitfit", "blocks": 1}, 11 * (768 + 512)),
    ({"kind": "lora", "blocks": 3, "rank": 1}, 3 * 4 * (768 + 512)),
    ({"kind": "ssf", "blocks": 1}, 2 * 4 * (768 + 512)),
    ({"kind": "adapter", "blocks": 3, "reduction": 128, "ratio": 0.2}, 3 * 2 * (768 * 6 + 512 * 4)),
]


@pytest.fixture(scope="module")
def vit_b_16():
    """ViT-B-16 with three blocks in each tower: counts depend on the last three alone."""
    config = open_clip.get_model_config("ViT-B-16")
    vision, text = {**config["vision_cfg"], "layers": 3}, {**config["text_cfg"], "layers": 3, "vocab_size": 49408}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return open_clip.model.CLIP(512, vision, text).eval().requires_grad_(False)


@pytest.mark.parametrize(("tune", "count"), PAPER, ids=lambda value: str(value))
def test_trained_parameters_are_counted_as_in_the_paper(vit_b_16, tune, count):
    assert sum(p.numel() for p in made(vit_b_16, tune).trained().values()) == count


def test_blocks_below_the_trained_ones_are_shared_with_the_pretrained_model(tiny_encoder):
    untrained = student(tiny_encoder, "ce")
    assert untrained.visual.transformer.resblocks[0] is tiny_encoder.model.visual.transformer.resblocks[0]
    assert untrained.visual.transformer.resblocks[1] is not tiny_encoder.model.visual.transformer.resblocks[1]
    assert untrained.context_length == tiny_encoder.model.context_length  # as any other attribute


def test_last_blocks_train_with_the_norms_and_projections_after_them(tiny_encoder):
    """CLIPood: of two blocks in each tower the second, ln_post and proj, ln_final and text_projection."""
    trained = set(made(tiny_encoder.model, {"kind": "last_blocks", "blocks": 1, "prompt_tokens": 0}).trained_names)
    visual, text = "model.visual.transformer.resblocks.1.", "model.transformer.resblocks.1."
    ends = {name for name in trained if not name.startswith((visual, text))}
    norms = {f"model.{norm}.{part}" for norm in ("visual.ln_post", "ln_final") for part in ("weight", "bias")}
    assert ends == {"model.visual.proj", "model.text_projection", *norms}
    for prefix, block in ((visual, tiny_encoder.model.visual.transformer), (text, tiny_encoder.model.transformer)):
        parts = {f"{prefix}{name}" for name, _ in block.resblocks[1].named_parameters()}
        assert parts <= trained, "all of the last block"


def test_the_image_projection_is_one_matrix_and_all_blocks_are_the_pretrained_models(tiny_encoder):
    tuned = student(tiny_encoder, "prolip")
    assert tuned.trained_names == tuned.stored_names == ("model.visual.proj",)
    for mine, pretrained in ((tuned.image_blocks, tiny_encoder.model.visual.transformer.resblocks),
                             (tuned.text_blocks, tiny_encoder.model.transformer.resblocks)):  # fmt: skip
        assert all(block is other for block, other in zip(mine, pretrained, strict=True))


def test_independent_prompts_start_as_the_template_and_small_random_vectors(tiny_encoder):
    """The template's tokens in the first text layer; all else normal with a standard deviation of 0.02."""
    tuned = made(tiny_encoder.model, {"kind": "independent_prompts", "tokens": 3, "depth": 2})
    rows = tiny_encoder.tokenizer(["a photo of"])[0, 1:4]
    assert torch.equal(tuned.soft_prompt, tiny_encoder.model.token_embedding.weight[rows])
    assert tuned.deep_prompts.shape[:2] == (1, 3)
    assert tuned.visual_prompts.shape[:2] == (2, 3)
    drawn = torch.cat([tuned.deep_prompts.detach().flatten(), tuned.visual_prompts.detach().flatten()])
    assert float(drawn.std()) == pytest.approx(0.02, rel=0.3)
    assert tuned.projector is None


def test_random_starts_come_from_the_generator(tiny_encoder):
    first, again, other = (student(tiny_encoder, "proda", seed=s).soft_descriptors[0] for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_descriptor_replaces_the_final_period():
    """7 is the comma, 5 the period, 9 the end of text."""
    tokens = torch.tensor([[8, 1, 5, 9, 0, 0, 0, 0], [8, 1, 2, 9, 0, 0, 0, 0]])
    inserted, positions = insert_descriptor(tokens, n=2, comma=7, period=5)
    assert inserted.tolist() == [[8, 1, 7, 7, 7, 9, 0, 0], [8, 1, 2, 7, 7, 7, 9, 0]]
    assert positions.tolist() == [[3, 4], [4, 5]]
    with pytest.raises(PoolError, match=r"a text of 4 tokens has no room for 4 soft tokens in 8"):
        insert_descriptor(tokens, n=4, comma=7, period=5)


def test_soft_descriptors_may_start_as_common_words_and_a_period(tiny_encoder):
    """They end with their own period, so encoding them equals encoding their words as text."""
    started, decoder = student(tiny_encoder, "proda"), tiny_encoder.tokenizer.decoder
    weight = tiny_encoder.model.token_embedding.weight
    said = [[int((weight == row).all(dim=1).nonzero()[0]) for row in member] for member in started.soft_descriptors]
    words = [decoder[token].removesuffix("</w>") for token in said[0]]
    assert words[-1] == "."
    assert all(word.isalpha() for word in words[:-1])
    assert len({*words}) == 5
    many = made(tiny_encoder.model, METHODS["proda"]["tune"] | {"members": 200, "tokens": 9}).soft_descriptors
    row_of = {tuple(row): token for token, row in enumerate(weight.tolist())}
    drawn = [decoder[row_of[tuple(row)]].removesuffix("</w>") for row in many[:, :-1].flatten(0, 1).tolist()]
    assert all(word.isascii() and word.isalpha() for word in drawn)
    started.soft_descriptors = torch.nn.Parameter(started.soft_descriptors[:1].detach())
    expected = tiny_encoder.encode_texts([f"a photo of a cat, {' '.join(words[:-1])}."])
    features = started.encode_text(tiny_encoder.tokenizer(["a photo of a cat."]), normalize=True)
    torch.testing.assert_close(features, expected.clone(), rtol=1e-4, atol=1e-5)


def test_soft_descriptors_may_start_as_words_of_a_list(tiny_encoder):
    """Of several tokens each or one; the first cannot be drawn, as in the authors' script."""
    tune = {**METHODS["proda"]["tune"], "tokens": 3, "words": "words.txt"}
    started = made(tiny_encoder.model, tune, words=["supercalifragilistic", "dog", "sun", "red"])
    rows = tiny_encoder.tokenizer(["dog sun red ."])[0, 1:5]
    weight = tiny_encoder.model.token_embedding.weight[rows]
    for member in started.soft_descriptors:
        same = (member[:, None] == weight).all(dim=2).int().argmax(dim=1).tolist()
        assert same[2] == 3
        assert set(same[:2]) < {0, 1, 2}
        assert len(set(same)) == 3
    with pytest.raises(ModelError, match="needs 3 words of one token each, there are 1"):
        made(tiny_encoder.model, tune, words=["dog", "supercalifragilistic"])


@pytest.mark.parametrize("name", ["bitfit_image", "lora_image", "ssf_image", "adapter_image"])
def test_training_only_the_image_tower_leaves_the_text_tower_at_its_initial_values(tiny_encoder, name):
    opened, tokens = student(tiny_encoder, name), tiny_encoder.tokenizer(TEXTS)
    assert opened.trained_names
    assert all(trained.startswith("model.visual.") for trained in opened.trained_names)
    drawn = {*opened.stored_names} - {*opened.trained_names}
    assert bool(drawn) == (name != "bitfit_image")
    with torch.no_grad():
        same = torch.allclose(opened.encode_text(tokens), tiny_encoder.model.encode_text(tokens), atol=1e-6)
    assert same == (name in ("bitfit_image", "lora_image"))


def test_more_blocks_than_the_model_has_are_refused(tiny_encoder):
    with pytest.raises(ModelError, match="bitfit trains more blocks than the 2 of the smaller tower"):
        made(tiny_encoder.model, {"kind": "bitfit", "blocks": 3})
    for kind in ("visual_prompt", "maple", "independent_prompts"):
        with pytest.raises(ModelError, match=f"{kind} trains more blocks than the 2 of the smaller tower"):
            made(tiny_encoder.model, {"kind": kind, "tokens": 1, "depth": 3})


def test_templates_must_be_long_enough_for_the_prompt_and_begin_alike(tiny_encoder):
    tune = KINDS.validate_python({"kind": "prompt", "tokens": 3})
    with pytest.raises(ParamsError, match=r"template 'my \{\}' has 1 tokens before the class name"):
        made(tiny_encoder.model, {"kind": "prompt", "tokens": 3}, template="my {}")
    templates = {"here": TEMPLATE, "good": "a photo of {}, a type of food.", "odd": "a sketch of a {}."}
    with pytest.raises(
        ParamsError, match=r"datasets.odd.template .* must begin with the same 3 tokens as that of here"
    ):
        check_templates(tune, templates, source="here", tokenizer=tiny_encoder.tokenizer)


@pytest.mark.parametrize(("template", "fits"), [("a photo in {}.", False), ("a photo of the {}.", True)])
def test_templates_must_agree_up_to_the_last_token_of_the_prompt_and_no_further(tiny_encoder, template, fits):
    """The prompt replaces "a photo of": the third token counts, and the fourth does not."""
    tune = KINDS.validate_python({"kind": "prompt", "tokens": 3})
    templates = {"here": "a photo of a {}.", "there": template}
    refused = pytest.raises(ParamsError, match=r"datasets.there.template .* must begin with the same 3 tokens")
    with nullcontext() if fits else refused:
        check_templates(tune, templates, source="here", tokenizer=tiny_encoder.tokenizer)


def test_soft_descriptors_may_start_from_a_soup(tiny_encoder):
    tune = {"kind": "soft_descriptors", "members": 2, "tokens": 4, "start": "soup", "prompt_tokens": 0}
    started = made(tiny_encoder.model, tune, soup=["sharp red hat", "cat dog", "a third that is not used"])
    with torch.no_grad():
        features = started.encode_text(tiny_encoder.tokenizer(["a photo of a cat."]), normalize=True)
        # The second member has two tokens: it begins again.
        texts = tiny_encoder.encode_texts(["a photo of a cat, sharp red hat.", "a photo of a cat, cat dog cat."])
    torch.testing.assert_close(features, torch.nn.functional.normalize(texts.mean(dim=0, keepdim=True), dim=-1))


@pytest.mark.parametrize(
    ("soup", "message"),
    [
        (["sharp"], "tune.members is 2, and the soup to start from has 1; lower it"),
        (["sharp", ""], "the soup to start from has a member without words, '': choose another soup"),
    ],
)
def test_a_soup_must_have_words_for_each_soft_descriptor(tiny_encoder, soup, message):
    tune = {"kind": "soft_descriptors", "members": 2, "tokens": 4, "start": "soup", "prompt_tokens": 0}
    with pytest.raises(ParamsError, match=message):
        made(tiny_encoder.model, tune, soup=soup)


@pytest.mark.parametrize("name", METHODS)
def test_trained_parameters_are_on_the_models_device(name):
    """On the meta device, which cannot be mixed with the CPU, like a GPU."""
    with torch.device("meta"):
        net = open_clip.model.CLIP(**TINY_CONFIG)
    assert {parameter.device.type for parameter in made(net, name).parameters()} == {"meta"}


def test_added_parts_by_hand():
    """A bottleneck of identities, a low-rank update of query and value, and a scaled and shifted layer."""
    x, plain, parameter = torch.tensor([[1.0, -2.0]]), torch.zeros(3, 1), torch.nn.Parameter
    for options, sign, expected in (
        ({}, 1, [1.0, -1.5]),
        ({}, -1, [0.5, -1.5]),
        ({"rectifies": True}, -1, [0.75, -1.5]),
    ):
        made_of = Bottleneck(2, 1, ratio=0.25, **options)
        made_of.down.weight, made_of.up.weight = parameter(torch.eye(2)), parameter(sign * torch.eye(2))
        assert made_of(x).tolist() == [expected]
    update = LowRank(1, rank=1)
    assert not update(plain).any(), "it starts at zero"
    update.down, update.up = parameter(torch.ones(2, 1, 1)), parameter(torch.tensor([[[1.0]], [[2.0]]]))
    torch.testing.assert_close(update(plain), torch.tensor([[0.2], [0.0], [0.4]]))
    scaled = ScaleShift(parameter(torch.tensor([2.0, 3.0])), shift=parameter(torch.ones(2)))
    assert scaled(torch.tensor([1.0, 1.0])).tolist() == [3.0, 4.0]
    weight = ScaleShift(parameter(torch.tensor([2.0, 3.0])))
    assert weight(torch.tensor([[1.0, 5.0], [1.0, 5.0]])).tolist() == [[2.0, 10.0], [3.0, 15.0]]


def test_the_image_adapter_adds_nothing_negative(tiny_encoder):
    """As CLIP-Adapter's, whose last layer is a relu: 0.8 of the features, and 0.2 of what is not below zero."""
    with torch.no_grad():
        plain = tiny_encoder.model.encode_image(pixels())
        added = student(tiny_encoder, "clip_adapter").encode_image(pixels()) - 0.8 * plain
    assert float(added.min()) > -1e-6
    assert 0 < int((added > 1e-3).sum()) < added.numel()


def test_random_updates_start_small():
    """Normal with a standard deviation of 0.02, and the other factor at zero."""
    update = LowRank(256, rank=8)
    assert float(update.down.detach().std()) == pytest.approx(0.02, rel=0.1)
    assert not update.up.any()


def test_clip_loras_update_is_alpha_over_the_root_of_the_rank_on_queries_keys_and_values():
    """Width 4 and rank 4: the scale is 1 / 2, and A starts as a linear layer does, within 1 / sqrt(4)."""
    update = LowRankQkv(4, rank=4, alpha=1.0)
    assert float(update.down.detach().abs().max()) <= 0.5
    assert float(LowRankQkv(64, rank=64, alpha=1.0).down.detach().std()) == pytest.approx(0.125 / 3**0.5, rel=0.1)
    assert not update.up.any()
    weight = torch.zeros(12, 4)
    with torch.no_grad():
        update.up[1] = torch.eye(4)
        moved = update(weight)
    assert not moved[:4].any()
    torch.testing.assert_close(moved[4:8], 0.5 * update.down[1].detach())
    assert not moved[8:].any()


def test_block_norms_are_those_of_every_block_of_both_towers_and_no_other(tiny_encoder):
    trained = set(student(tiny_encoder, "two_stage").trained_names)
    norms = {f"{norm}.{part}" for norm in ("ln_1", "ln_2") for part in ("weight", "bias")}
    towers = ("model.visual.transformer.resblocks", "model.transformer.resblocks")
    assert trained == {f"{tower}.{i}.{norm}" for tower in towers for i in range(2) for norm in norms}


def test_scales_and_shifts_start_at_random_around_one_and_zero(tiny_encoder):
    """With the same standard deviation, 0.02, as in the authors' code."""
    drawn = student(tiny_encoder, "ssf").trained()
    for ending, centre in ((".scale", 1.0), (".shift", 0.0)):
        values = torch.cat([p.detach().flatten() for name, p in drawn.items() if name.endswith(ending)])
        assert len(values) > 100
        assert float(values.mean()) == pytest.approx(centre, abs=0.006)
        assert float(values.std()) == pytest.approx(0.02, rel=0.2)


PROMPTS_OF_TEXTS = {"soft_prompt", "deep_prompts", "soft_descriptors"}


@pytest.mark.parametrize("name", METHODS)
def test_prompts_of_texts_learn_faster_by_the_prompt_factor_and_nothing_else_does(tiny_encoder, name):
    """A rate of 0.01 times 10; weight decay, and momentum without Nesterov's step, are those of section finetune."""
    shared = finetune_params(weight_decay=0.25, momentum=0.5)
    method = shared.methods[name]
    trained = student(tiny_encoder, name).trained()
    optimizer = make_optimizer(trained, method=method, shared=shared)
    assert (optimizer.weight_decay, optimizer.momentum) == (0.25, 0.5)
    rates = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            rates[id(parameter)] = group["lr"]
    for parameter_name, parameter in trained.items():
        expected = 0.1 if parameter_name in PROMPTS_OF_TEXTS else 0.01
        assert rates[id(parameter)] == pytest.approx(expected), parameter_name
    assert (optimizer.steps == 2) == (getattr(method.tune, "opens", None) == "image_twice")
