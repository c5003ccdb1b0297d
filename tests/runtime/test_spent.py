"""Seconds and FLOPs of images and texts."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import torch
from small_world import COLOURS, write_image_folder

from wsoup.disk.shards import Owner
from wsoup.evaluate.counts import TextFlops
from wsoup.finetune.params import SoftDescriptorsTune
from wsoup.finetune.tuners import make_student
from wsoup.images.features import ImageList, embed_images, image_flops
from wsoup.runtime import process
from wsoup.texts.encoder import PromptEncoder


def test_taking_the_sums_resets_them():
    process.take_spent()
    with process.timed(process.TEXTS):
        pass
    process.add_flops(process.TEXTS, 2e9)
    process.add_spent({"texts_gflops": 1.0, "images_seconds": 3.0})
    spent = process.take_spent()
    assert 0 <= spent.pop("texts_seconds") < 1
    assert spent == {"texts_gflops": 3.0, "images_seconds": 3.0}
    assert process.take_spent() == {}


def test_images_are_timed_and_their_flops_counted_per_image(in_tmp: Path, tiny_encoder):
    write_image_folder(in_tmp / "photo", splits={"test": 2}, classes=COLOURS)
    paths = sorted(str(path.relative_to(in_tmp)) for path in (in_tmp / "photo").rglob("*.png"))
    process.take_spent()
    images = ImageList(in_tmp, paths, [None] * len(paths))
    owner = Owner("embed@photo", {}, {})
    embed_images({"one": tiny_encoder}, lists=[images], batch_size=4, on_bad_image="stop", label="", owner=owner)
    spent = process.take_spent()
    assert spent["images_seconds"] > 0
    assert spent["images_gflops"] == round(len(paths) * image_flops(tiny_encoder) / 1e9, 3)
    assert json.loads(json.dumps(spent)) == spent


def test_image_flops_equal_torchs_count_without_its_compiler():
    code = """
        import sys, types
        import torch
        from torch.utils.flop_counter import FlopCounterMode
        from wsoup.images.features import image_flops
        from wsoup.towers.encoder import random_model
        for name in ("ViT-S-32-alt", "RN50"):
            model, _ = random_model(name, seed=0)
            ours = image_flops(types.SimpleNamespace(model=model, preprocessing={"size": 224}))
            assert name == "RN50" or "torch._dynamo" not in sys.modules
            with FlopCounterMode(display=False) as theirs, torch.no_grad():
                model.encode_image(torch.zeros(1, 3, 224, 224))
            assert ours == theirs.get_total_flops() > 0
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_texts_cost_what_was_encoded_since_then(tiny_encoder):
    texts = PromptEncoder.of(tiny_encoder)
    texts.encode(["a photo of a cat."])
    before = TextFlops(texts, encoder=tiny_encoder, prompt="a photo of a cat.")
    assert before.done() == 0
    counted = texts.flops
    texts.encode(["a photo of a red dog."])
    assert before.done() == texts.flops - counted > 0
    assert torch.is_grad_enabled()


def test_towers_with_soft_descriptors_are_counted_by_the_token(tiny_encoder):
    """Their prompts are longer than the learned tokens, so a text of the run is counted."""
    tune = SoftDescriptorsTune(kind="soft_descriptors", members=2, tokens=5, prompt_tokens=3)
    generator = torch.Generator().manual_seed(0)
    student = make_student(
        tiny_encoder.model,
        tokenizer=tiny_encoder.tokenizer,
        tune=tune,
        template="a photo of a {}.",
        generator=generator,
    )
    tuned = dataclasses.replace(tiny_encoder, model=student.merge())
    texts = PromptEncoder.of(tuned)
    assert texts.way != "fast"
    spent_since = TextFlops(texts, encoder=tuned, prompt="a photo of a cat.")
    encoded = texts.tokens_encoded
    texts.encode(["a photo of a red dog."])
    assert spent_since.done() > 0
    assert texts.tokens_encoded > encoded
