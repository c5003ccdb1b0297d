"""Interrupts and kills at random moments of every stage: one line and 130; the next run makes the same bytes."""

from __future__ import annotations

import hashlib
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from hostile_stages import FIRST, LONG, REST, Stage, run, start
from project import Project

OUTS = ("artifacts", "reports")


def digests(folder: Path) -> dict[str, str]:
    """Digests of all files in the outs, half-written ones included."""
    files = [path for out in OUTS for path in (folder / out).rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize("stage", [*FIRST, *LONG, *REST], ids="@".join)
def test_a_stage_stopped_at_any_moment_ends_in_the_same_bytes(
    project: Project, tmp_path: Path, stage: Stage, number: signal.Signals
) -> None:
    ignored = shutil.ignore_patterns(".git", ".cache")
    folder = Path(shutil.copytree(project.folder, tmp_path / "run", ignore=ignored))
    before = digests(folder)
    began = time.monotonic()
    assert run(folder, stage)[0] == 0
    took = time.monotonic() - began
    shutil.rmtree(folder / ".cache/wsoup")  # or there would be nothing to do
    draw = random.Random(f"{stage} {number.name}")
    for _ in range(2):
        process = start(folder, stage)
        time.sleep(draw.uniform(0.05, took))
        process.send_signal(number)
        _, errors = process.communicate()
        assert "Traceback" not in errors
        if number == signal.SIGKILL:
            assert process.returncode in (0, -signal.SIGKILL)
        else:
            assert process.returncode in (0, 130, -number)  # -number: before Python itself had started
            assert process.returncode != 130 or "interrupted" in errors.splitlines()[-1]
    assert run(folder, stage)[0] == 0
    assert digests(folder) == before
