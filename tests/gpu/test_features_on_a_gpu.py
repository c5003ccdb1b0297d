"""Image features on cuda, by precision, with decoding processes, and with too little device memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from on_cuda import ON_CUDA, little_memory, tf32
from PIL import Image

from wsoup.images.features import encode_files
from wsoup.images.pixels import encode_pixels
from wsoup.towers.encoder import AUTOCAST, Encoder
from wsoup.towers.models import random_model

pytestmark = ON_CUDA

PRECISIONS = {"fp32": 1e-4, "tf32": 1e-2, "bf16": 5e-2, "fp16": 1e-2}
"""Largest distance of a unit feature from the CPU's in float32."""


def encoder_of(name: str, *, device: str) -> Encoder:
    model, tokenizer = random_model(name, seed=0)
    nothing = None
    return Encoder(model.to(device), tokenizer, nothing, {}, {}, torch.device(device), None)


@pytest.fixture(scope="module", params=["ViT-B-32", "RN50"])
def both(request) -> tuple[Encoder, Encoder]:
    return encoder_of(request.param, device="cpu"), encoder_of(request.param, device="cuda")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_images(both, precision):
    here, there = both
    size = here.model.visual.image_size
    pixels = torch.randn(4, 3, *(size if isinstance(size, tuple) else (size, size)))
    with tf32(products=precision == "tf32", convolutions=precision == "tf32"):
        features = encode_pixels(replace(there, dtype=AUTOCAST.get(precision)), pixels)
    assert features.dtype == torch.float32
    assert (features.cpu() - encode_pixels(here, pixels)).norm(dim=-1).max() < PRECISIONS[precision]


def test_images_decoded_by_other_processes(both, tmp_path: Path):
    """Decoding processes start after the device is in use."""
    Image.new("RGB", (64, 48), (200, 30, 30)).save(tmp_path / "a.png")
    _, there = both
    size = 224

    def preprocess(image: Image.Image) -> torch.Tensor:
        return torch.full((3, size, size), image.getpixel((0, 0))[0] / 255)

    encoder = replace(there, preprocess=preprocess)
    paths = [str(tmp_path / "a.png")] * 1100
    encoded = encode_files({"a": encoder}, paths=paths, digests=None, batch_size=256, on_bad_image="stop")
    features = torch.from_numpy(encoded.features["a"])
    assert features.shape[0] == 1100
    assert (features - features[:1]).norm(dim=-1).max() < 1e-3


def test_a_batch_larger_than_the_memory(both):
    _, there = both
    pixels = torch.randn(512, 3, 224, 224)
    expected = encode_pixels(there, pixels)
    with little_memory(more=600 << 20):
        features = encode_pixels(there, pixels)
    assert (features - expected).norm(dim=-1).max() < 1e-3
