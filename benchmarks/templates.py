"""Time the 80 templates with every class, compared with the plain loop: `encode_text` of each class's prompts.

    python -m benchmarks.templates --model ViT-B-16 --classes 1000

Random weights; eight minutes on one core. docs/notes/exact_texts.md has figures.
"""

from __future__ import annotations

from typing import Annotated

import torch
import typer

from benchmarks.timing import Clock, Result, about, random_encoder, show
from wsoup.runtime.memory import keep_memory
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.templates import encode_templates
from wsoup.towers.encoder import choose_device
from wsoup.towers.models import ensemble_templates, imagenet_class_names

PLAIN_CLASSES = 4
"""Classes of which the plain loop encodes all prompts, spread over all classes; its rate is the same for the others."""


def bench_templates(
    name: str, *, templates: list[str], classes: int, device: torch.device, precision: str = "fp32"
) -> Result:
    """Time templates with every class, and compare features and rate with those of the plain loop on some classes.

    Args:
        name: an open_clip model.
        templates: each with one ``{}``.
        classes: how many of ImageNet's class names.
        device, precision: where and how it computes.
    """
    encoder = random_encoder(name, device=device, precision=precision)
    names = imagenet_class_names()[:classes]
    text_encoder = PromptEncoder.of(encoder)
    sample = range(0, classes, -(-classes // PLAIN_CLASSES))
    clock = Clock(device)
    plain = []
    for label in sample:
        plain.append(encoder.encode_texts([template.replace("{}", names[label]) for template in templates]))
    plain_s = clock.lap()
    features = encode_templates(text_encoder, templates, names)  # (P, C, D)
    ours_s = clock.lap()
    of_sample = torch.stack([features[:, label] for label in sample])
    plain_rate = len(sample) * len(templates) / plain_s
    our_rate = classes * len(templates) / ours_s
    row: Result = {
        "templates": len(templates),
        "ours_s": ours_s,
        "ours_per_s": our_rate,
        "plain_per_s": plain_rate,
        "ratio": our_rate / plain_rate,
        "largest_difference": float((of_sample - torch.stack(plain)).abs().max()),
    }
    return {"bench": "templates", **about(encoder), "classes": classes, "texts": text_encoder.way, "rows": [row]}


def main(
    model: Annotated[str, typer.Option(help="An open_clip model; its weights are random.")] = "ViT-B-16",
    classes: Annotated[int, typer.Option(help="How many of ImageNet's class names.")] = 1000,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16.")] = "fp32",
) -> None:
    """Time OpenAI's 80 templates with every class, compared with the plain loop at 77 tokens."""
    keep_memory()
    templates = [fill("{}") for fill in ensemble_templates()]
    show(
        bench_templates(model, templates=templates, classes=classes, device=choose_device(device), precision=precision)
    )


if __name__ == "__main__":
    typer.run(main)
