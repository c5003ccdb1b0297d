"""The authors' own scripts as an oracle: `pytest -m slow tests/oracle --authors FOLDER`, a checkout of theirs.

Their code (github.com/Chris210634/word_soups, 35a676f) has no licence and stays outside of this repository.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

Run = Callable[..., Path]
NEEDED = ("scipy",)
"""Packages that the authors' code imports and wsoup does not."""


@pytest.fixture(scope="session")
def authors(pytestconfig: pytest.Config) -> Path:
    """The checkout that the command names."""
    folder = pytestconfig.getoption("--authors")
    if folder is None:
        pytest.skip("needs a checkout of the authors' code: --authors FOLDER")
    for package in NEEDED:
        if importlib.util.find_spec(package) is None:
            pytest.fail(f"the authors' code needs {package}: pip install -e '.[dev,oracle]'", pytrace=False)
    assert (Path(folder) / "source/trainer.py").is_file(), f"{folder} is no checkout of Chris210634/word_soups"
    return Path(folder).resolve()


@pytest.fixture(scope="session")
def theirs(authors: Path, tmp_path_factory: pytest.TempPathFactory, tiny_encoder_files: dict[str, str]) -> Run:
    """Run one task of `run_theirs.py` on a world, in a process of its own; the folder with what it made."""

    def run(
        task: str, *, world: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], files: Mapping[str, Any]
    ) -> Path:
        folder = tmp_path_factory.mktemp(task)
        model = {"model": tiny_encoder_files["model"], "config": tiny_encoder_files["config"], "size": 16}
        about = {**model, "weights": tiny_encoder_files["pretrained"], **world}
        (folder / "world.json").write_text(json.dumps(about))
        save_file(
            {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()},
            folder / "world.safetensors",
        )
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(content))
        script = Path(__file__).with_name("run_theirs.py")
        ran = subprocess.run(
            [sys.executable, str(script), task, str(authors)], cwd=folder, capture_output=True, text=True, timeout=1800
        )
        assert ran.returncode == 0, ran.stderr[-3000:]
        return folder

    return run
