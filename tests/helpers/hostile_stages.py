"""Run single stages of a miniature project as a user would, without DVC."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from wsoup.base.errors import LONGEST

Stage = tuple[str, ...]
FIRST: list[Stage] = [("prepare", "photo"), ("prepare", "other"), ("candidates",), ("fewshot",)]
"""Stages that need no model."""
LONG: list[Stage] = [("embed_train",), ("embed", "photo"), ("score", "words"), ("soup", "word"), ("finetune", "ce")]
"""Stages with resume state."""
REST: list[Stage] = [("embed", "other"), ("embed", "dim"), ("evaluated",), ("score", "descriptors")]
REST += [("soup", "descriptor"), ("head", "ridge"), ("evaluate",), ("survey",), ("evaluate_tuned", "ce"), ("report",)]


def start(folder: Path, stage: Stage) -> subprocess.Popen[str]:
    """Start a stage in `folder`, with the copy of wsoup there."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "WSOUP_CACHE")}
    return subprocess.Popen(
        [sys.executable, "stages", *stage],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, stage: Stage) -> tuple[int, list[str]]:
    """Exit code of a stage, and its lines on stderr."""
    process = start(folder, stage)
    _, errors = process.communicate()
    return process.returncode, errors.splitlines()


def refused(folder: Path, stage: Stage) -> str:
    """The error of a stage: one line, perhaps after progress bars."""
    code, lines = run(folder, stage)
    assert code == 1, lines
    assert not any("Traceback" in line for line in lines), lines
    assert [line for line in lines if line.startswith("error: ")] == lines[-1:], lines
    assert len(lines[-1]) <= LONGEST + len("error: ")
    return lines[-1]
