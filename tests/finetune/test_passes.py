"""Features computed during training, against the student's own encoders."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from finetune_cases import COMMON, METHODS, SOUP, finetune_params
from torch.nn import functional as F

from wsoup.core import prompts
from wsoup.finetune.params import MethodParams
from wsoup.finetune.passes import Passes
from wsoup.finetune.train import Trainer
from wsoup.images.pixels import encode_pixels


def passes_of(encoder, colours, name: str, steps: int = 2) -> Passes:
    """Passes after two steps, so that no parameter has its initial value."""
    shared = finetune_params()
    run = Trainer(encoder, source=colours, method=shared.methods[name], shared=shared, seed=1)
    for _ in range(steps):
        run.step()
    return run.passes


@pytest.mark.parametrize("name", METHODS)
def test_features_match_the_student_and_the_pretrained_model(tiny_encoder, colours, name):
    passes = passes_of(tiny_encoder, colours, name)
    pixels = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    stems = prompts.stems(colours.template, colours.class_names)
    student = passes.student
    with torch.no_grad():
        images, teacher = passes.images(pixels, teacher=True)
        torch.testing.assert_close(images, student.encode_image(pixels, normalize=True), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(teacher, encode_pixels(tiny_encoder, pixels).clone(), rtol=1e-5, atol=1e-6)
        for member, text in enumerate(SOUP if student.soft_descriptors is None else SOUP[:1]):
            tokens = tiny_encoder.tokenizer([stem + prompts.ending(text, period=True) for stem in stems])
            expected = F.normalize(tiny_encoder.model.encode_text(tokens), dim=-1)
            torch.testing.assert_close(passes.teacher_texts(member), expected, rtol=1e-5, atol=1e-6)
            features = passes.texts(member)
            if student.soft_descriptors is None:
                expected = student.encode_text(tokens, normalize=True)
                torch.testing.assert_close(features, expected, rtol=1e-5, atol=1e-6)
            some = torch.tensor([3, 0])
            torch.testing.assert_close(passes.texts(member, classes=some), features[some], rtol=1e-5, atol=1e-6)


def test_a_member_that_is_a_template_gives_the_whole_prompt(tiny_encoder, colours):
    shared = finetune_params()
    soup = ["art of the {}", "which is bright", "a {} in a game."]
    source = dataclasses.replace(colours, soup=soup)
    passes = Trainer(tiny_encoder, source=source, method=shared.methods["lora"], shared=shared, seed=1).passes
    for member, text in enumerate(soup):
        texts = [prompts.prompt(colours.template, name, text) for name in colours.class_names]
        with torch.no_grad():
            expected = F.normalize(tiny_encoder.model.encode_text(tiny_encoder.tokenizer(texts)), dim=-1)
            torch.testing.assert_close(passes.teacher_texts(member), expected, rtol=1e-5, atol=1e-6)


def test_texts_of_templates_are_the_mean_of_features_that_are_not_normalised(tiny_encoder, colours):
    """The first three of OpenAI's 80: "a bad photo of a {}.", "a photo of many {}.", "a sculpture of a {}."."""
    passes = passes_of(tiny_encoder, colours, "promptsrc")
    total = torch.zeros(4, 16)
    with torch.no_grad():
        for beginning in ("a bad photo of a", "a photo of many", "a sculpture of a"):
            tokens = tiny_encoder.tokenizer([f"{beginning} {name}." for name in colours.class_names])
            total = total + tiny_encoder.model.encode_text(tokens)
    torch.testing.assert_close(passes.template_texts(3), F.normalize(total, dim=-1), rtol=1e-5, atol=1e-6)


def test_the_student_encodes_the_centroid_of_its_soft_descriptors(tiny_encoder, colours):
    passes = passes_of(tiny_encoder, colours, "proda")
    stems = prompts.stems(colours.template, colours.class_names)
    tokens = tiny_encoder.tokenizer([stem + "." for stem in stems])
    with torch.no_grad():
        members = torch.stack([passes.texts(i) for i in range(4)])
        torch.testing.assert_close(
            F.normalize(members.mean(dim=0), dim=-1), passes.student.encode_text(tokens, normalize=True)
        )


def test_a_soft_descriptor_from_a_soup_starts_at_the_teachers_prediction(tiny_encoder, colours):
    """Member by member; and the diversity loss moves it away."""
    source = dataclasses.replace(colours, soup=["sharp red hat", "cat dog bird"])
    tune = {"kind": "soft_descriptors", "members": 2, "tokens": 4, "start": "soup", "prompt_tokens": 0}
    loss = {"kind": "cross_entropy", "lambda": 0.25, "teacher_logit_scale": 10}
    method = MethodParams(**{**COMMON, "tune": tune, "loss": loss, "soup": "word"})
    run = Trainer(tiny_encoder, source=source, method=method, shared=finetune_params(), seed=1)
    with torch.no_grad():
        for member in range(2):
            started = run.passes.texts(member)
            torch.testing.assert_close(started, run.passes.teacher_texts(member), rtol=1e-5, atol=1e-6)
    run.step()
    with torch.no_grad():
        assert not torch.allclose(run.passes.texts(0), run.passes.teacher_texts(0), atol=1e-4)


def test_the_trunk_is_fixed_only_if_it_is_not_trained(tiny_encoder, colours):
    fixed = {name for name in METHODS if passes_of(tiny_encoder, colours, name, steps=0).trunk_is_fixed}
    kinds = ("prompt", "soft_descriptors")
    texts_only = {name for name in METHODS if METHODS[name]["tune"]["kind"] in kinds} - {"coop_ensemble_open"}
    assert fixed == texts_only | {"clip_adapter"}
