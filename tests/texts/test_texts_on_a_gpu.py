"""Texts on CUDA: every kind of tower against the CPU, by precision, and with too little memory."""

from __future__ import annotations

import copy

import pytest
import torch
from on_cuda import ON_CUDA, little_memory, tf32

from wsoup.texts.encoder import PromptEncoder
from wsoup.towers import models as towers

pytestmark = ON_CUDA

PREFIXES = [f"a photo of a {name}," for name in ("cat", "dog", "red panda", "great white shark", "owl")]
SUFFIXES = ["", " sharp", " old", " which has claws", " which has a tail", " which has a wet nose and a tail."]
PRECISIONS = {"fp32": (None, 1e-4), "tf32": (None, 1e-2), "bf16": (torch.bfloat16, 5e-2), "fp16": (torch.float16, 1e-2)}
"""Autocast type, and the largest distance of a feature (a unit vector) from the CPU's in float32."""


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "name",
    ["clip", "quick_gelu", "tanh_gelu", "one_block", "layer_scale", "custom_text", "coca", "coca_true_mask", "siglip"],
)
def test_every_kind_of_tower_by_precision(family, plain, name, precision):
    model, tokenizer, fast = family(name)
    dtype, most = PRECISIONS[precision]
    encoder = PromptEncoder(copy.deepcopy(model).cuda(), tokenizer, device=torch.device("cuda"), dtype=dtype)
    with tf32(products=precision == "tf32", convolutions=False):
        features = encoder.encode_grid(PREFIXES, SUFFIXES).flatten(0, 1).cpu()
    expected = plain(model, tokenizer, [prefix + suffix for suffix in SUFFIXES for prefix in PREFIXES])
    assert (features - expected).norm(dim=-1).max() < most
    assert encoder.fast == fast


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_full_size_tower(precision):
    model, tokenizer = towers.random_model("ViT-B-16", seed=0)
    dtype, most = PRECISIONS[precision]
    expected = PromptEncoder(model, tokenizer, device=torch.device("cpu")).encode_grid(PREFIXES, SUFFIXES)
    encoder = PromptEncoder(model.cuda(), tokenizer, device=torch.device("cuda"), dtype=dtype)
    with tf32(products=precision == "tf32", convolutions=False):
        features = encoder.encode_grid(PREFIXES, SUFFIXES).cpu()
    assert encoder.fast
    assert (features - expected).norm(dim=-1).max() < most


def test_batches_are_halved_when_memory_runs_out():
    model, tokenizer = towers.random_model("ViT-B-16", seed=0)
    encoder = PromptEncoder(model.cuda(), tokenizer, device=torch.device("cuda"))
    prefixes = [f"a photo of a {name}," for name in towers.imagenet_class_names()[:400]]
    suffixes = [f" word{i}" for i in range(64)]
    expected = encoder.encode_grid(prefixes, suffixes)
    with little_memory(more=400 << 20):
        features = encoder.encode_grid(prefixes, suffixes)
    assert (features - expected).norm(dim=-1).max() < 1e-5
