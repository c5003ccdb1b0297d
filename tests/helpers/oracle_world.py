"""Ten classes for the oracle: image features around the classes' texts, words and descriptors."""

from __future__ import annotations

import torch
from torch.nn import functional as F

NAMES = ["red fox", "cat", "dog", "owl", "tulip", "apple pie", "old car", "snow leopard", "boat", "tree"]
QUALITIES = "sharp nice old soft big small red green light dark fast slow kind bold warm cold"
THINGS = "river stone cloud paper metal glass wood sand smoke rain leaf root wing bone hair skin"
WORDS = f"{QUALITIES} {THINGS}".split()
DESCRIPTORS = [f"which {verb} {thing}" for verb in ("has", "may have", "is near") for thing in THINGS.split()[:12]]


def images_near(encoder, names: list[str], *, template: str, each: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Features (N, 16) around their classes' texts, with noise, and labels (N,)."""
    texts = encoder.encode_texts([template.format(name) for name in names]).clone()
    labels = torch.arange(len(names)).repeat_interleave(each)
    noise = torch.randn(len(labels), 16, generator=torch.Generator().manual_seed(seed))
    spread = (texts - texts.mean(dim=0)).norm(dim=1).mean()
    return F.normalize(texts[labels] + 0.35 * spread * noise, dim=-1), labels
