"""The authors' own scripts as an oracle: `pytest -m slow tests/oracle --authors FOLDER`, a checkout of theirs.

Their code (github.com/Chris210634/word_soups, 35a676f) has no licence and stays outside of this repository. `--rivals
FOLDER` takes a folder of checkouts of later methods, each under the name of its repository (`RIVALS`).
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
RIVALS = {"rethinking_fewshot_vlms": "fs/twostage.py", "CLAP": "trainers/adapters.py", "Dassl.pytorch": "dassl/optim"}
"""Repositories of FarinaMatteo (64ac143), jusiro (dbdf409) and KaiyangZhou (c61a1b5), and a path that each has."""
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
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(content))
        about = {**model_of(tiny_encoder_files), **world}
        run_script("run_theirs.py", task, checkout=authors, folder=folder, world=about, tensors=tensors)
        return folder

    return run


@pytest.fixture(scope="session")
def rivals(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory, tiny_encoder_files) -> Run:
    """Run one task of `run_rivals.py`, in a process of its own; the folder with what it made."""
    given = pytestconfig.getoption("--rivals")
    if given is None:
        pytest.skip("needs checkouts of rivals' code: --rivals FOLDER")
    for name, path in RIVALS.items():
        assert (Path(given) / name / path).exists(), f"{given} has no checkout of {name}"

    def run(task: str, *, world: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Path:
        folder = tmp_path_factory.mktemp(task)
        about = {**model_of(tiny_encoder_files), **world}
        run_script("run_rivals.py", task, checkout=Path(given).resolve(), folder=folder, world=about, tensors=tensors)
        return folder

    return run


def model_of(files: Mapping[str, str]) -> dict[str, Any]:
    """What a script needs to load the test's encoder."""
    return {"model": files["model"], "config": files["config"], "size": 16, "weights": files["pretrained"]}


def run_script(
    script: str,
    task: str,
    *,
    checkout: Path,
    folder: Path,
    world: Mapping[str, Any],
    tensors: Mapping[str, torch.Tensor],
) -> None:
    """Run a script of this folder on a world, in a process of its own that works in `folder`."""
    (folder / "world.json").write_text(json.dumps(world))
    save_file(
        {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()},
        folder / "world.safetensors",
    )
    command = [sys.executable, str(Path(__file__).with_name(script)), task, str(checkout)]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800)
    assert ran.returncode == 0, ran.stderr[-3000:]
