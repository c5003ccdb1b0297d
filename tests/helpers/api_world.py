"""Image features, words and descriptors for the API's tests, from a fixed seed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

NAMES = ["cat", "dog", "bird", "fish"]
WORDS = ["time", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "state", "family"]
DESCRIPTORS = ["which is bright", "which has corners", "which is flat", "which is seen at night", "which is plain"]
ENCODER = {"model": "tiny-clip", "pretrained": "tiny.safetensors"}
SMALL = {"k0": 4, "k1": 12, "patience": 6, "m": 3, "max_words": 3}


@dataclass(frozen=True)
class Photos:
    """60 images as features (60, 16), scattered around the classes' own texts."""

    features: Tensor
    labels: Tensor


def photos(encoder) -> Photos:
    texts = encoder.encode_texts([f"a photo of a {name}." for name in NAMES])
    labels = torch.arange(60) % len(NAMES)
    noise = torch.randn(60, texts.shape[1], generator=torch.Generator().manual_seed(0))
    features = torch.nn.functional.normalize(texts[labels] + 0.05 * noise, dim=1)
    return Photos(features.clone(), labels)
