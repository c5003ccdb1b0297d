"""Time counting: correct images of each candidate in float32, and with bf16 settling what it can.

    python -m benchmarks.counting --classes 1000

Random features; about a minute on two cores. docs/notes/exact_texts.md has figures. `python -m benchmarks.gpu` times
the same on a GPU.
"""

from __future__ import annotations

from statistics import median
from typing import Annotated

import torch
import typer
from torch import Tensor

from benchmarks.timing import Clock, Result, show
from wsoup.core.class_texts import normalize
from wsoup.core.scoring import Decisions, Scores
from wsoup.core.screening import ON_CPU, Screen, fast_on, rounded
from wsoup.runtime.memory import keep_memory
from wsoup.search.rank.image_set import ImageSet
from wsoup.search.rank.statistics import statistics
from wsoup.towers.encoder import choose_device

SPREADS = (2.0, 3.5)
"""How far images lie from the texts of their classes: easy and hard ones."""
TEXT_SPREAD = 0.7
"""How far the classes' texts lie from their mean; their distance from it is then about 0.6, as with CLIP's."""


def bench_counting(
    device: torch.device, *, images: int, classes: int, size: int, candidates: int, pairs: int
) -> Result:
    """Time counts alone in both ways, and counts with likelihoods, in turn, and compare the answers.

    Args:
        device: where to count.
        images, classes, size: N, C and D.
        candidates: texts counted in one measurement.
        pairs: measurements of each way.
    """
    rows = []
    for spread in SPREADS:
        problem = problem_on(device, images, classes, size, candidates, spread=spread)
        rows.append({"spread": spread, **_all_ways(*problem, pairs=pairs)})
    return {"bench": "counting", "threads": torch.get_num_threads(), "images": images, "classes": classes, "rows": rows}


def _all_ways(images: Tensor, labels: Tensor, texts: Tensor, *, pairs: int) -> Result:
    scores = Scores(images, texts)
    products = fast_on(images.device) or ON_CPU
    image_set = ImageSet(
        images, labels=labels, n_classes=texts.shape[1], subsets=[torch.arange(len(labels), device=labels.device)]
    )
    clock = Clock(labels.device)
    plain_s, screened_s, likely_s = [], [], []
    for _ in range(1 + pairs):
        clock.lap()
        plain = scores.against_in_float32(labels)
        plain_s.append(clock.lap())
        screened = scores.against_by_screening(labels, products=products)
        screened_s.append(clock.lap())
        statistics(image_set, texts, baseline_right=plain.right[0])
        likely_s.append(clock.lap())
    # The first pair warms up.
    ratios = [before / after for before, after in zip(plain_s[1:], screened_s[1:], strict=True)]
    _, is_open = Screen(texts[:1], products=products).answers(rounded(images), labels, margin=0.0)
    return {
        "accuracy": float(plain.right.double().mean()),
        "open": float(is_open.double().mean()),
        "same": _same(plain, screened),
        "differ": int((plain.right != screened.right).sum()),
        "float32_s": median(plain_s[1:]) / len(texts),
        "screened_s": median(screened_s[1:]) / len(texts),
        "with_likelihood_s": median(likely_s[1:]) / len(texts),
        "ratio": median(ratios),
    }


def _same(a: Decisions, b: Decisions) -> bool:
    return torch.equal(a.right, b.right) and torch.equal(a.near, b.near)


def problem_on(
    device: torch.device, n_images: int, classes: int, size: int, candidates: int, *, spread: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Images (N, D) around class texts that have a large common part, their labels, and candidates (P, C, D)."""
    generator = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, size, generator=generator) / size**0.5

    names = normalize(noise() + TEXT_SPREAD * noise(classes))
    texts = normalize(names + 0.3 * noise(candidates, classes))
    labels = torch.arange(n_images) % classes
    images = normalize(names[labels] + spread * noise(n_images))
    return images.to(device), labels.to(device), texts.to(device)


def main(
    images: Annotated[int, typer.Option(help="Images counted.")] = 48_000,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 1000,
    size: Annotated[int, typer.Option(help="Features of an image and of a text.")] = 512,
    candidates: Annotated[int, typer.Option(help="Texts counted in one measurement.")] = 8,
    pairs: Annotated[int, typer.Option(help="Measurements of each way.")] = 5,
    device: Annotated[str, typer.Option(help="auto, cuda, cuda:1, cpu.")] = "cpu",
) -> None:
    """Time counting in float32 and with bf16, in alternation."""
    keep_memory()
    where = choose_device(device)
    show(bench_counting(where, images=images, classes=classes, size=size, candidates=candidates, pairs=pairs))


if __name__ == "__main__":
    typer.run(main)
