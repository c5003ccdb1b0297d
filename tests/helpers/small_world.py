"""Folders of generated images, and a tiny CLIP's configuration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {"red": (200, 30, 30), "green": (30, 180, 40), "blue": (40, 50, 210), "white": (240, 240, 240)}


def write_image_folder(root: Path, *, splits: dict[str, int], classes: dict[str, tuple[int, int, int]]) -> Path:
    """ImageFolder of noisy one-colour PNGs: root/split/class/number.png, the same bytes each time."""
    rng = np.random.default_rng(0)
    for split, per_class in splits.items():
        for name, colour in classes.items():
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(per_class):
                pixels = np.clip(np.array(colour) + rng.normal(0, 25, (20, 20, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(folder / f"{number:02d}.png")
    return root


TINY_CONFIG = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 16, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2},
}
