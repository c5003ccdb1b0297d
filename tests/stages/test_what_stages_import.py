"""Stages that compute nothing with a model import none of its packages; each fact in its own process."""

from __future__ import annotations

import subprocess
import sys

import pytest
from project import ROOT

MODEL = {"torch", "torchvision", "open_clip", "zarr", "huggingface_hub"}
NOT_IMPORTED = {
    "code": {*MODEL, "pyarrow"},
    "prepare": MODEL,
    "fewshot": {*MODEL, "pyarrow"},
    "candidates": {*MODEL, "pyarrow", "wordfreq"},
    "evaluated": {*MODEL, "pyarrow"},
    "report": {*MODEL, "jinja2", "dvc"},
}
"""By stage, packages that take a tenth of a second or more and that it does not need to begin."""


@pytest.mark.parametrize("stage", NOT_IMPORTED)
def test_a_stage_without_a_model_begins_without(stage: str):
    code = f"import sys, stages.{stage}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert NOT_IMPORTED[stage] & {*done.stdout.split()} == set()
