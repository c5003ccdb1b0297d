"""`make gpu` where there is no GPU: the same command at toy size, so that it works the first time there is one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import open_clip
import pytest
import torch
from processes import ROOT, warm_python

from benchmarks.counting import problem_on
from benchmarks.gpu import loading as loading_module
from benchmarks.gpu.__main__ import TOY_MODEL, Part
from benchmarks.gpu.bench import TOY, Bench, bench_on
from benchmarks.gpu.counting import counting
from benchmarks.gpu.images import files, images
from benchmarks.gpu.loading import loading
from benchmarks.gpu.memory import batches, running_out
from benchmarks.gpu.texts import searches
from benchmarks.gpu.training import CASES, Step, training
from wsoup.towers.encoder import Encoder

PARTS = (
    "Tests: every stage, method and precision against the CPU",
    "The toy world, end to end",
    "The device's own rate: a product of two 128 x 128 matrices",
    "Texts: toy-clip, words with 8 classes",
    "Counting: 8 classes, 512 features",
    "Searches: 3 seeds of 16 images a class",
    "Images: toy-clip, in batches of 4",
    "Image files, decoded and encoded",
    "Training: 8 classes, 4 images",
    "Training with its loader",
    "Batches",
    "Memory that runs out",
)


@pytest.mark.long
def test_every_part_runs_on_a_cpu(tmp_path: Path) -> None:
    environment = os.environ | warm_python() | {"PYTHON": str(ROOT / "tests/helpers/warm/python")}
    command = [sys.executable, "-m", "benchmarks.gpu", "--device", "cpu", "--out", str(tmp_path / "gpu.md")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-5000:]
    report = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert done.stdout.endswith("gpu.md: all parts ran\n")
    assert report.startswith("# On a CPU, at toy size: that it runs, not how fast\n")
    assert [line[3:] for line in report.splitlines() if line.startswith("## ")] == list(PARTS)
    assert " stages in" in report
    assert "| bf16 |" in report


@pytest.fixture(scope="module")
def bench() -> Bench:
    open_clip.add_model_config(TOY_MODEL)
    return bench_on(torch.device("cpu"), TOY)


def cells(table: list[str]) -> list[list[str]]:
    """The cells of a Markdown table, without the line below its head."""
    rows = [line.strip("|").split("|") for line in table]
    return [[cell.strip() for cell in row] for row in [rows[0], *rows[2:]]]


def test_searches_are_timed_with_and_without_likelihood(bench: Bench) -> None:
    head, *rows = cells(searches(bench, descriptors=["which is bright", "which is flat"]))
    assert head[3] == "counts alone, a word"
    assert [row[0] for row in rows] == ["fp32", "bf16"]
    assert all(row[3].endswith(" ms") and len(row) == len(head) for row in rows)


def test_counts_are_timed_in_both_ways_and_compared(bench: Bench) -> None:
    head, *rows = cells(counting(bench))
    assert head[1:] == [
        "correct", "counted again", "answers that differ", "counts in float32", "screened", "ratio", "with likelihoods"
    ]  # fmt: skip
    assert [row[3] for row in rows] == ["0", "0"]
    assert all(len(row) == len(head) for row in rows)


def test_the_loader_is_timed_alone_and_beside_the_step(bench: Bench) -> None:
    head, row = cells(loading(bench))
    assert head == ["training, images/s", "the loader", "a step", "together"]
    assert row[0] == "prompt + diversity, bf16, 4 images a step"
    assert all(float(cell.replace(",", "")) > 0 for cell in row[1:])


ELSEWHERE = torch.device("meta")
"""A device that is not the CPU, and that every machine has."""


def test_what_is_timed_lies_on_the_device_of_the_bench(bench: Bench) -> None:
    """The check that a GPU made first: four parts handed pixels of the CPU to its model."""
    there = replace(bench, device=ELSEWHERE)
    assert there.pixels(2).device == ELSEWHERE
    assert {tensor.device for tensor in problem_on(ELSEWHERE, 4, 3, 8, 2, spread=2.0)} == {ELSEWHERE}
    step = Step(there, bench.encoder, CASES["prompt + diversity"], count=2)
    assert {step.pixels.device, step.labels.device} == {ELSEWHERE}
    with pytest.raises(ValueError, match="pixels lies on meta, the model on cpu; send it there before it is timed"):
        step.our_way()


def test_pixels_of_the_loader_go_to_the_device_before_a_step(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.device] = []

    class Noted:
        """In place of a step: where its pixels are."""

        def __init__(self, bench: Bench, encoder: Encoder, tune: object, *, count: int) -> None:
            self.pixels = bench.pixels(count)

        def our_way(self, member: int = 0) -> None:
            seen.append(self.pixels.device)

    monkeypatch.setattr(loading_module, "Step", Noted)
    loading(replace(bench, device=ELSEWHERE, encoder=replace(bench.encoder, device=ELSEWHERE)))
    assert set(seen) == {ELSEWHERE}


@pytest.mark.parametrize("part", [files, training, batches, running_out])
def test_the_other_parts_have_full_tables(bench: Bench, part: Part) -> None:
    head, *rows = cells(part(bench))
    assert rows
    assert all(len(row) == len(head) for row in rows)


def test_images_are_timed_in_each_precision(bench: Bench) -> None:
    _, *rows = cells(images(bench, peaks={"fp32": 1e12, "bf16": 1e12}))
    assert [row[0] for row in rows] == ["fp32", "bf16"]
