"""Time one training step, compared with the plain way in turn and with equal gradients.

    python -m benchmarks.train --model ViT-B-16 --classes 100

Random weights; docs/notes/methods.md has figures. The plain way: every text at the full context through the modules of
`model.encode_text`, image and text through the whole student, and a separate pretrained model run on the same images
and texts for the teacher's share of the target.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor
from torch.nn import functional as F

from benchmarks.timing import Result, about, page_faults, random_encoder, show
from wsoup.core import prompts
from wsoup.finetune import losses
from wsoup.finetune.loss_params import CrossEntropyLoss
from wsoup.finetune.objective import Objective
from wsoup.finetune.passes import Passes
from wsoup.finetune.student import Student
from wsoup.finetune.tune_params import LastBlocksTune, PromptTune, TuneParams
from wsoup.finetune.tuners import make_student
from wsoup.runtime.memory import keep_memory
from wsoup.towers.encoder import Encoder, choose_device
from wsoup.towers.models import imagenet_class_names

TEMPLATE = "a photo of a {}."
SOUP = (
    "outdoor camera view",
    "which has a long tail",
    "original image scale pick",
    "close detail seen",
    "natural light shown here",
    "which typically lives in groups",
    "size item series",
    "real world shot",
)
"""Texts as long as usual word chains and descriptors; their meaning does not matter."""
LOSS = CrossEntropyLoss.model_validate({"kind": "cross_entropy", "lambda": 0.25, "teacher_logit_scale": 10})
LOGIT_SCALE = 60.0
CASES: dict[str, TuneParams] = {
    "ce + diversity": LastBlocksTune(kind="last_blocks", blocks=3, prompt_tokens=3),
    "coop + diversity": PromptTune(kind="prompt", tokens=3),
}


def bench_train(
    name: str,
    *,
    classes: int,
    device: torch.device,
    batch_size: int = 16,
    repeats: int = 3,
    cases: Sequence[str] = tuple(CASES),
) -> Result:
    """Seconds per step of both ways, their ratio, and the largest relative difference of gradients.

    Args:
        name: open_clip model, with random weights.
        classes: first classes of ImageNet.
        device: where.
        batch_size: images in a step.
        repeats: measured steps of each way, in turn, after a warm-up; medians are reported.
        cases: which steps.
    """
    encoder = random_encoder(name, device=device)
    side: int = encoder.model.visual.image_size[0]  # type: ignore[index, union-attr, assignment]
    names = imagenet_class_names()[:classes]
    draw = torch.Generator().manual_seed(0)
    pixels = torch.randn(batch_size, 3, side, side, generator=draw).to(device)
    labels = torch.randperm(classes, generator=draw)[:batch_size].to(device)
    rows = [_measure(case, encoder, names=names, pixels=pixels, labels=labels, repeats=repeats) for case in cases]
    return {"bench": "train", **about(encoder), "classes": classes, "batch_size": batch_size, "rows": rows}


def _measure(case: str, encoder: Encoder, *, names: list[str], pixels: Tensor, labels: Tensor, repeats: int) -> Result:
    def student() -> Student:
        generator = torch.Generator().manual_seed(0)
        return make_student(
            encoder.model, tokenizer=encoder.tokenizer, tune=CASES[case], template=TEMPLATE, generator=generator
        )

    ours, plain = student(), student()
    passes = Passes(encoder, student=ours, class_names=names, template=TEMPLATE, soup=SOUP)
    for member in range(len(SOUP)):
        passes.teacher_texts(member)  # once per training, not per step
    scaler = torch.amp.GradScaler(encoder.device.type, enabled=False)
    parameters = list(ours.trained().values())
    objective = Objective(passes, loss=LOSS, logit_scale=LOGIT_SCALE, parameters=parameters, scaler=scaler)
    teacher = copy.deepcopy(encoder.model)

    def our_step(iteration: int) -> None:
        images, frozen = passes.images(pixels, teacher=True)
        objective.backward(images, frozen, labels, text_index=iteration)

    def plain_step(iteration: int) -> None:
        stems = prompts.stems(TEMPLATE, names)
        ending = prompts.ending(SOUP[iteration % len(SOUP)], period=True)
        tokens = encoder.tokenizer([stem + ending for stem in stems]).to(encoder.device)
        _plain_loss(plain, teacher, pixels, labels, tokens).backward()

    steps = [plain_step, our_step]
    seconds, faults = _interleaved(steps, students=[plain, ours], repeats=repeats, device=encoder.device)
    pairs = zip(plain.trained().values(), ours.trained().values(), strict=True)
    gradient = max(_difference(p.grad, q.grad) for p, q in pairs)
    return {
        "case": case,
        "plain_s": seconds[0],
        "ours_s": seconds[1],
        "ratio": seconds[0] / seconds[1],
        "page_faults": faults[1],
        "gradient_difference": gradient,
    }


def _plain_loss(student: Student, teacher: Any, pixels: Tensor, labels: Tensor, tokens: Tensor) -> Tensor:
    """Cross entropy with the teacher's share, written plainly."""
    with torch.no_grad():
        old_images = F.normalize(teacher.encode_image(pixels), dim=-1)
        old_texts = F.normalize(teacher.encode_text(tokens), dim=-1)
        taught = (10.0 * old_images @ old_texts.T).softmax(dim=-1)
    images = F.normalize(student.model.encode_image(pixels), dim=-1)
    net, prompt = student.text_tower, student.soft_prompt
    x = net.token_embedding(tokens)
    x = torch.cat([x[:, :1], prompt.expand(len(x), -1, -1), x[:, 1 + len(prompt) :]], dim=1)
    x = net.transformer(x + net.positional_embedding, attn_mask=net.attn_mask)
    x = net.ln_final(x)[torch.arange(len(x)), tokens.argmax(dim=-1)] @ net.text_projection
    logits = LOGIT_SCALE * images @ F.normalize(x, dim=-1).T
    onehot = F.one_hot(labels, len(tokens)).float()
    return losses.cross_entropy(logits, 0.75 * onehot + 0.25 * taught)


def _interleaved(
    steps: Sequence[Callable[[int], None]], *, students: list[Student], repeats: int, device: torch.device
) -> tuple[list[float], list[int]]:
    """Median seconds and page faults of each step, without the first round, which is a warm-up."""
    seconds: list[list[float]] = [[] for _ in steps]
    faults: list[list[int]] = [[] for _ in steps]
    for iteration in range(repeats + 1):
        for step, student, taken, faulted in zip(steps, students, seconds, faults, strict=True):
            student.zero_grad(set_to_none=True)
            began, before = time.perf_counter(), page_faults()
            step(iteration)
            if device.type == "cuda":
                torch.cuda.synchronize()
            taken.append(time.perf_counter() - began)
            faulted.append(page_faults() - before)
    return [statistics.median(taken[1:]) for taken in seconds], [int(statistics.median(f[1:])) for f in faults]


def _difference(a: Tensor | None, b: Tensor | None) -> float:
    if a is None or b is None:
        return float(np.inf if a is not b else 0)
    return float((a - b).norm() / a.norm().clamp(min=torch.finfo(a.dtype).tiny))


def main(
    model: Annotated[str, typer.Option(help="An open_clip model; its weights are random.")] = "ViT-B-16",
    classes: Annotated[int, typer.Option(help="How many of ImageNet's class names.")] = 100,
    batch_size: Annotated[int, typer.Option(help="Images in a step.")] = 16,
    repeats: Annotated[int, typer.Option(help="Measured steps of each way, in turn.")] = 3,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
) -> None:
    """Time one training step, compared with the plain way: 77 tokens and a separate teacher."""
    keep_memory()
    where = choose_device(device)
    result = bench_train(model, classes=classes, device=where, batch_size=batch_size, repeats=repeats)
    show(result)


if __name__ == "__main__":
    typer.run(main)
