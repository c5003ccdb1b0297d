"""Small real parts for the tests: an open_clip model with random weights, and an empty working folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from long_stages import Miniature
from project import Project
from small_world import TINY_CONFIG

os.environ.setdefault("OMP_NUM_THREADS", "1" if "PYTEST_XDIST_WORKER" in os.environ else "2")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--authors", metavar="FOLDER", help="a checkout of the paper's own code, for tests/oracle")


@pytest.fixture(scope="session")
def tiny_encoder_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Section `encoder` of params.yaml for a tiny CLIP with seeded random weights, on disk like any local model."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("encoder")
    config = folder / "tiny-clip.json"
    config.write_text(json.dumps(TINY_CONFIG))
    open_clip.add_model_config(config)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = open_clip.create_model("tiny-clip")
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "tiny.safetensors")
    return {
        "model": "tiny-clip",
        "pretrained": str(folder / "tiny.safetensors"),
        "config": str(config),
        "interpolation": "bicubic",
        "precision": "fp32",
        "watch": str(folder),
    }


@pytest.fixture(scope="session")
def tiny_encoder(tiny_encoder_files: dict[str, str]):
    """The same, loaded on the CPU."""
    import torch

    from wsoup.params.base.encoder import EncoderParams
    from wsoup.towers.encoder import load_encoder

    return load_encoder(EncoderParams(**tiny_encoder_files), device=torch.device("cpu"))


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with its own resume cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WSOUP_CACHE", raising=False)
    return tmp_path


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory, tiny_encoder_files: dict[str, str]) -> Project:
    """The miniature project after its first `dvc repro`, committed."""
    made = Project(tmp_path_factory.mktemp("project"), encoder=tiny_encoder_files)
    ran = made.repro()
    assert {"prepare@photo", "embed_train", "score@words", "soup@word", "finetune@ce", "report"} <= ran
    made.commit("first run")
    return made


@pytest.fixture(scope="session")
def miniature(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Miniature:
    """A copy of it whose long stages are killed and begun again."""
    return Miniature(tmp_path_factory.mktemp("miniature") / "project", project=project)
