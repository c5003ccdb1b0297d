"""The training loader: batches of crops from files, while a step of training runs and alone."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import yaml

from benchmarks.files import draw_files
from benchmarks.gpu.bench import TEMPLATE, Bench
from benchmarks.gpu.training import CASES, SOUP, Step
from benchmarks.gpu.world import ROOT
from benchmarks.timing import Clock
from wsoup.disk.store import sha256_file
from wsoup.finetune.loading import Batches
from wsoup.finetune.params import FinetuneParams
from wsoup.finetune.training_set import TrainingSet

CASE, PRECISION = "prompt + diversity", "bf16"
METHOD = "coop_diverse"
"""Of the toy world's params.yaml, whose settings of a loader are the paper's but for the crop."""


def loading(bench: Bench) -> list[str]:
    """Images a second of the loader alone, of the step alone, and of both as training runs them."""
    lines = ["| training, images/s | the loader | a step | together |", "|---|---:|---:|---:|"]
    n_batches = bench.size.load_batches
    with tempfile.TemporaryDirectory() as folder, bench.at(PRECISION) as encoder:
        source = training_set(Path(folder), bench)
        shared = shared_settings(batch_size=bench.size.train_images)
        method = shared.methods[METHOD]
        loader, together = (
            Batches(source, encoder=encoder, method=method, shared=shared, seed=seed) for seed in range(2)
        )
        step = Step(bench, encoder, CASES[CASE], count=bench.size.train_images)
        step.our_way()
        clock = Clock(bench.device)
        for iteration in range(n_batches):
            loader.load(iteration)
        alone = clock.lap()
        for iteration in range(n_batches):
            step.our_way(iteration % len(SOUP))
        steps = clock.lap()
        for iteration in range(n_batches):
            pixels, _ = together.take(iteration, of=n_batches)
            step.pixels = together.images.normalized(pixels.to(encoder.device, non_blocking=True))
            step.our_way(iteration % len(SOUP))
            together.forget(iteration)
        both = clock.lap()
    n_images = n_batches * bench.size.train_images
    rates = " | ".join(f"{n_images / seconds:,.0f}" for seconds in (alone, steps, both))
    lines.append(f"| {CASE}, {PRECISION}, {bench.size.train_images} images a step | {rates} |")
    return lines


def training_set(folder: Path, bench: Bench) -> TrainingSet:
    """One image of each class."""
    n_classes = bench.size.train_classes
    files = draw_files(folder, count=n_classes)
    digests = [sha256_file(file) for file in files]
    return TrainingSet(
        paths=[str(file) for file in files],
        digests=digests,
        labels=np.arange(n_classes),
        class_names=bench.class_names(n_classes),
        template=TEMPLATE,
        soup=SOUP,
    )


def shared_settings(*, batch_size: int) -> FinetuneParams:
    """Section finetune of the toy world with another batch size."""
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    return FinetuneParams.model_validate({**params["finetune"], "batch_size": batch_size})
