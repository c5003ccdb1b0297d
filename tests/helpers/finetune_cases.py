"""Every kind of method at small size, and few-shot images of four colours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from wsoup.disk.store import sha256_file
from wsoup.finetune.params import FinetuneParams
from wsoup.finetune.training_set import TrainingSet

SHARED: dict[str, Any] = {
    "iterations": 4,
    "batch_size": 3,
    "batches": "distinct",
    "momentum": 0.9,
    "weight_decay": 1e-5,
    "logit_scale": 60,
    "ema": 0.7,
    "augment": {"crop": [0.3, 1.0], "flip": True},
    "log_every": 2,
}
SOFT = {"kind": "soft_descriptors", "members": 2, "tokens": 5, "prompt_tokens": 0}
PROMPT = {"kind": "prompt", "tokens": 3}
ADAPTER = {"kind": "adapter", "blocks": 1, "reduction": 4, "ratio": 0.2}
CE = {"kind": "cross_entropy"}
TAUGHT = {**CE, "lambda": 0.25, "teacher_logit_scale": 10}
TWICE = {"opens": "image_twice"}
TUNE_AND_LOSS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ce": ({"kind": "last_blocks", "blocks": 1, "prompt_tokens": 3}, CE),
    "clipood": ({"kind": "last_blocks", "blocks": 2, "prompt_tokens": 0}, {**CE, "margin": 0.1}),
    "coop": (PROMPT, CE),
    "coop_diverse": (PROMPT, TAUGHT),
    "coop_smooth": ({"kind": "prompt", "tokens": 1}, {**CE, "label_smoothing": 0.1}),
    "kgcoop": ({"kind": "prompt", "tokens": 2}, {"kind": "kgcoop", "weight": 8}),
    "prograd": (PROMPT, {"kind": "prograd", "weight": 1}),
    "proda": (
        {"kind": "soft_descriptors", "members": 4, "tokens": 5, "prompt_tokens": 3},
        {"kind": "proda", "per_step": 2, "orthogonality": 0.1},
    ),
    "coop_ensemble": (SOFT, CE),
    "maple": ({"kind": "maple", "tokens": 3, "depth": 2}, CE),
    "maple_shallow": ({"kind": "maple", "tokens": 1, "depth": 1}, CE),
    "vpt": ({"kind": "visual_prompt", "tokens": 2, "depth": 2}, CE),
    "bitfit": ({"kind": "bitfit", "blocks": 2}, CE),
    "lora": ({"kind": "lora", "blocks": 1, "rank": 2}, CE),
    "ssf": ({"kind": "ssf", "blocks": 1}, CE),
    "adapter": (ADAPTER, CE),
    "bitfit_image": ({"kind": "bitfit", "blocks": 1, **TWICE}, CE),
    "lora_image": ({"kind": "lora", "blocks": 1, "rank": 2, "piles_up": True, **TWICE}, CE),
    "ssf_image": ({"kind": "ssf", "blocks": 1, **TWICE}, CE),
    "adapter_image": ({**ADAPTER, **TWICE}, CE),
    "coop_ensemble_open": ({**SOFT, "blocks": 1}, CE),
    "promptsrc": (
        {"kind": "independent_prompts", "tokens": 3, "depth": 2},
        {"kind": "promptsrc", "image_weight": 10, "text_weight": 25, "templates": 2},
    ),
    "clip_lora": ({"kind": "clip_lora", "blocks": 2, "rank": 2}, CE),
    "two_stage": ({"kind": "block_norms"}, CE),
    "both_stages": ({"kind": "block_norms", "first_stage": 0.5}, CE),
    "prolip": ({"kind": "image_projection"}, {"kind": "prolip", "weight": 0.1}),
    "clip_adapter": ({"kind": "image_adapter", "reduction": 4, "ratio": 0.2}, TAUGHT),
}
METHODS: dict[str, dict[str, Any]] = {
    name: {"tune": tune, "loss": loss} | ({"soup": "word"} if name == "coop_diverse" else {})
    for name, (tune, loss) in TUNE_AND_LOSS.items()
}
COMMON = {"soup": "class_name", "learning_rate": 0.01, "prompt_factor": 10}
SOUP = ["", "sharp nice", "ears"]
COLOURS = {"blue": (40, 50, 210), "green": (30, 180, 40), "red": (200, 30, 30), "white": (240, 240, 240)}


def finetune_params(**changes: Any) -> FinetuneParams:
    """The shared settings above, with changes."""
    return FinetuneParams(**{**SHARED, **changes}, methods={k: {**COMMON, **v} for k, v in METHODS.items()})


def draw_colours(root: Path) -> TrainingSet:
    """Four colours with three noisy PNGs each."""
    rng, paths = np.random.default_rng(0), []
    for name, colour in COLOURS.items():
        for number in range(3):
            pixels = np.clip(np.array(colour) + rng.normal(0, 25, (20, 24, 3)), 0, 255).astype(np.uint8)
            path = root / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
            paths.append(str(path))
    labels = np.repeat(np.arange(len(COLOURS)), 3)
    digests = [sha256_file(path) for path in paths]
    return TrainingSet(paths, digests, labels, class_names=list(COLOURS), template="a photo of a {}.", soup=SOUP)
