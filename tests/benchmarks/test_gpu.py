"""`make gpu` where there is no GPU: the same command at toy size, so that it works the first time there is one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import ROOT, warm_python

PARTS = (
    "Tests: every stage, method and precision against the CPU",
    "The toy world, end to end",
    "The device's own rate: a product of two 128 x 128 matrices",
    "Texts: toy-clip, words with 8 classes",
    "Searches: 3 seeds of 16 images a class",
    "Images: toy-clip, in batches of 4",
    "Image files, decoded and encoded",
    "Training: 8 classes, 4 images",
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
