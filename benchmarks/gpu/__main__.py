"""Tests and timings on a GPU, in at most eight minutes: `make gpu`, or `python -m benchmarks.gpu`.

The tests marked gpu and the toy world run first, in parallel processes; then each part of the work is timed with the
machine to itself. Results go to reports/gpu.md. On a CPU the same command runs at toy size, without meaningful timings.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import open_clip
import torch
import torchvision

from benchmarks.gpu.bench import FULL, TOY, Bench, bench_on, rates_of_products
from benchmarks.gpu.counting import counting
from benchmarks.gpu.images import files, images
from benchmarks.gpu.loading import loading
from benchmarks.gpu.memory import batches, running_out
from benchmarks.gpu.texts import searches, texts
from benchmarks.gpu.training import training
from benchmarks.gpu.world import ROOT, run_world
from wsoup.towers.encoder import choose_device

TESTS = (
    "tests/gpu",
    "tests/core/test_screening.py",
    "tests/texts/test_texts_on_a_gpu.py",
    "tests/texts/test_prompt_encoder.py",
)
TOY_MODEL = ROOT / "data/toy/toy-clip.json"

Part = Callable[[], list[str]]


def main() -> int:
    """Run everything and write the report; exit code 1 if a part failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:1, cpu")
    parser.add_argument("--out", type=Path, default=ROOT / "reports/gpu.md")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    on_gpu, began, failed = device.type == "cuda", time.perf_counter(), list[str]()
    lines = ["# On a GPU" if on_gpu else "# On a CPU, at toy size: that it runs, not how fast", "", *about(device)]

    def write(title: str, part: Part) -> None:
        start = time.perf_counter()
        results = attempted(title, part, failed=failed)
        print(f"{title}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
        lines.extend(["", f"## {title}", "", *results])
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")  # after each part

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        tested = pool.submit(tests, device)
        ran = pool.submit(run_world, Path(folder) / "toy", device=str(device), toy=not on_gpu)
        write("Tests: every stage, method and precision against the CPU", tested.result)
        write("The toy world, end to end", ran.result)
    if not on_gpu:
        open_clip.add_model_config(TOY_MODEL)
    bench = bench_on(device, FULL if on_gpu else TOY)
    for title, part in parts(bench).items():
        write(title, part)
    lines.extend(["", f"All of it took {time.perf_counter() - began:.0f} seconds."])
    arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{arguments.out}: {'all parts ran' if not failed else 'failed: ' + ', '.join(failed)}")
    return int(bool(failed))


def parts(bench: Bench) -> dict[str, Part]:
    """The timed parts by title. A new part (heads, adaptation, ...) is a line here and a module in this folder."""
    peaks = rates_of_products(bench)
    descriptors = (ROOT / "data/toy/descriptors.txt").read_text(encoding="utf-8").split("\n")
    texts_ = [text for text in descriptors if text and not text.startswith("#")]
    n = f"{bench.size.product:,}"
    return {
        f"The device's own rate: a product of two {n} x {n} matrices": lambda: [
            ", ".join(f"{name} {rate / 1e12:,.2f} TFLOP/s" for name, rate in peaks.items()) + "."
        ],
        f"Texts: {bench.size.model}, words with {bench.size.classes} classes": lambda: texts(bench, peaks=peaks),
        f"Counting: {bench.size.classes} classes, 512 features": lambda: counting(bench),
        "Searches: 3 seeds of 16 images a class": lambda: searches(bench, descriptors=texts_),
        f"Images: {bench.size.model}, in batches of {bench.size.images}": lambda: images(bench, peaks=peaks),
        "Image files, decoded and encoded": lambda: files(bench),
        f"Training: {bench.size.train_classes} classes, {bench.size.train_images} images": lambda: training(bench),
        "Training with its loader": lambda: loading(bench),
        "Batches": lambda: batches(bench),
        "Memory that runs out": lambda: running_out(bench),
    }


def attempted(title: str, part: Part, *, failed: list[str]) -> list[str]:
    """Lines of a part, or of its error, so that the other parts still run."""
    try:
        return part()
    except Exception as error:  # an untested device may raise anything
        traceback.print_exc()
        failed.append(title)
        return [f"**Failed**: {type(error).__name__}: {' '.join(str(error).split())[:500]}"]


def about(device: torch.device) -> list[str]:
    """Device and versions."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    cuda = f", CUDA {torch.version.cuda}" if device.type == "cuda" else ""
    versions = f"torch {torch.__version__}{cuda}, torchvision {torchvision.__version__}, numpy {numpy.__version__}"
    others = f"open_clip {open_clip.__version__}, Python {platform.python_version()}"
    return [f"{name}, {os.cpu_count()} CPU cores; {versions}, {others}. `make gpu`, on {time.strftime('%Y-%m-%d')}."]


def tests(device: torch.device) -> list[str]:
    """Run `pytest -m gpu`, which skips all tests on a CPU: its last line; raises with the tests that failed."""
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "--tb=short", "-p", "no:cacheprovider", *TESTS]
    environment = os.environ if device.type == "cuda" else {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    printed = done.stdout.strip().splitlines()
    if done.returncode not in (0, 5):  # 5: no tests were selected
        print(done.stdout[-8000:], done.stderr[-2000:], file=sys.stderr)
        raise RuntimeError(
            "; ".join([*(line for line in printed if line.startswith(("FAILED", "ERROR"))), *printed[-1:]])
        )
    return [f"`pytest -m gpu`: {printed[-1] if printed else 'nothing'}."]


if __name__ == "__main__":
    raise SystemExit(main())
