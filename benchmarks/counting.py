"""Time counting: correct images of each candidate in float32, and with bf16 settling what it can.

    python -m benchmarks.counting --classes 1000

Random features; about a minute on two cores. docs/notes/exact_texts.md has figures.
"""

from __future__ import annotations

import statistics
from typing import Annotated

import torch
import typer
from torch import Tensor

from benchmarks.timing import Clock, Result, show
from wsoup.core.class_texts import normalize
from wsoup.core.scoring import AT_ONCE, Decisions, Scores
from wsoup.core.screening import Screen, rounded
from wsoup.runtime.memory import keep_memory

SPREADS = (2.0, 3.5)
"""How far images lie from the texts of their classes: easy and hard ones."""
TEXT_SPREAD = 0.7
"""How far the classes' texts lie from their mean; their distance from it is then about 0.6, as with CLIP's."""


def bench_counting(*, images: int, classes: int, size: int, candidates: int, pairs: int) -> Result:
    """Time both ways in alternation, and compare their answers.

    Args:
        images, classes, size: N, C and D.
        candidates: texts counted in one measurement.
        pairs: measurements of each way.
    """
    rows = []
    for spread in SPREADS:
        x, labels, texts = _problem(images, classes, size, candidates, spread=spread)
        rows.append({"spread": spread, **_both_ways(x, labels, texts, pairs=pairs)})
    return {"bench": "counting", "threads": torch.get_num_threads(), "images": images, "classes": classes, "rows": rows}


def _both_ways(images: Tensor, labels: Tensor, texts: Tensor, *, pairs: int) -> Result:
    clock = Clock(labels.device)
    plain_s, screened_s = [], []
    for _ in range(1 + pairs):
        clock.lap()
        plain = Scores(images, texts, at_once=AT_ONCE).against_in_float32(labels)
        plain_s.append(clock.lap())
        screened = Scores(images, texts, at_once=AT_ONCE).against_by_screening(labels)
        screened_s.append(clock.lap())
    # The first pair warms up.
    ratios = [before / after for before, after in zip(plain_s[1:], screened_s[1:], strict=True)]
    _, is_open = Screen(texts[0]).answers(rounded(images), labels, margin=0.0)
    return {
        "accuracy": float(plain.right.double().mean()),
        "open": float(is_open.double().mean()),
        "same": _same(plain, screened),
        "float32_s": statistics.median(plain_s[1:]) / len(texts),
        "screened_s": statistics.median(screened_s[1:]) / len(texts),
        "ratio": statistics.median(ratios),
    }


def _same(a: Decisions, b: Decisions) -> bool:
    return torch.equal(a.right, b.right) and torch.equal(a.near, b.near)


def _problem(
    n_images: int, classes: int, size: int, candidates: int, *, spread: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Images (N, D) around class texts that have a large common part, their labels, and candidates (P, C, D)."""
    generator = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, size, generator=generator) / size**0.5

    names = normalize(noise() + TEXT_SPREAD * noise(classes))
    texts = normalize(names + 0.3 * noise(candidates, classes))
    labels = torch.arange(n_images) % classes
    images = normalize(names[labels] + spread * noise(n_images))
    return images, labels, texts


def main(
    images: Annotated[int, typer.Option(help="Images counted.")] = 48_000,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 1000,
    size: Annotated[int, typer.Option(help="Features of an image and of a text.")] = 512,
    candidates: Annotated[int, typer.Option(help="Texts counted in one measurement.")] = 8,
    pairs: Annotated[int, typer.Option(help="Measurements of each way.")] = 5,
) -> None:
    """Time counting in float32 and with bf16, in alternation."""
    keep_memory()
    show(bench_counting(images=images, classes=classes, size=size, candidates=candidates, pairs=pairs))


if __name__ == "__main__":
    typer.run(main)
