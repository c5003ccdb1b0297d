"""Fixtures of all tests: a small open_clip model, an empty working folder, a miniature project."""

from __future__ import annotations

import gc
import importlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock

if TYPE_CHECKING:  # torch would be imported before the workers start
    from long_stages import Miniature
    from project import Project

if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup, which tests of a closed terminal must not inherit
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.environ.setdefault("OMP_NUM_THREADS", "1" if "PYTEST_XDIST_WORKER" in os.environ else "2")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rivals", metavar="FOLDER", help="a folder of checkouts of rivals' code, for tests/oracle")
    parser.addoption("--authors", metavar="FOLDER", help="a checkout of the paper's own code, for tests/oracle")


def pytest_sessionstart() -> None:
    """Run nothing where the files that ship lack a key: hundreds of tests would fail, and none would say why."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    from shipped import half_done

    lines = half_done()
    if lines:
        how = "Give the key a default, which is the behaviour without it; or name it in each of these files."
        pytest.exit("\n".join(["a key is half done:", *lines, how]), returncode=1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Disable the garbage collector, which takes a third of collection time and finds nothing.

    Workers import torchvision as the library does, without torch's compiler, which takes three core seconds.
    """
    gc.disable()
    if "PYTEST_XDIST_WORKER" in os.environ:
        importlib.import_module("wsoup.towers.library")
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else native packages report leaks at exit


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run one file that needs `first_run` first, and the others of its kind after half of all other files.

    So no worker waits while another makes the project, and short files remain for the end.
    """
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    needing = [name for name, own in files.items() if any("first_run" in item.fixturenames for item in own)]  # type: ignore[attr-defined]
    others = [name for name in files if name not in needing]
    half = len(others) // 2
    items[:] = [item for name in needing[:1] + others[:half] + needing[1:] + others[half:] for item in files[name]]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for things that are made once for all workers."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def tiny_encoder_files(shared: Path) -> dict[str, str]:
    """Section `encoder` of params.yaml for a tiny CLIP on disk, with seeded random weights."""
    import open_clip
    import torch
    from safetensors.torch import save_file
    from small_world import TINY_CONFIG

    folder = shared / "encoder"
    folder.mkdir(exist_ok=True)
    config = folder / "tiny-clip.json"
    with FileLock(shared / "encoder.lock"):
        if not (folder / "tiny.safetensors").exists():
            config.write_text(json.dumps(TINY_CONFIG))
            open_clip.add_model_config(config)
            with torch.random.fork_rng():
                torch.manual_seed(0)
                weights = open_clip.create_model("tiny-clip").state_dict()
            save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / "tiny.safetensors")
    open_clip.add_model_config(config)
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
    """The tiny CLIP, loaded on the CPU."""
    import torch

    from wsoup.params.inputs import EncoderParams
    from wsoup.towers.encoder import load_encoder

    return load_encoder(EncoderParams(**tiny_encoder_files), device=torch.device("cpu"))


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with its own resume cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WSOUP_CACHE", raising=False)
    return tmp_path


@pytest.fixture(scope="session")
def first_run(shared: Path, tiny_encoder_files: dict[str, str]) -> Project:
    """The miniature project after its first `dvc repro`, committed; made once for all workers. No test changes it."""
    from project import Project

    with FileLock(shared / "project.lock"):
        if not (shared / "project.done").exists():
            first = Project(shared / "project", encoder=tiny_encoder_files)
            ran = first.repro()
            assert {"prepare@photo", "embed_train", "score@words", "soup@word", "finetune@ce", "report"} <= ran
            first.commit("first run")
            first.git("gc", "--quiet")  # one file instead of 600, for the copies
            (shared / "project.done").touch()
    return Project.at(shared / "project")


@pytest.fixture(scope="module")
def project(first_run: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the first run for the tests of one file.

    A stage that runs again replaces the finished shards of the first run, and other files count those.
    """
    return first_run.copy(tmp_path_factory.mktemp("project") / "project")


@pytest.fixture(scope="session")
def miniature(shared: Path, first_run: Project, tmp_path_factory: pytest.TempPathFactory) -> Miniature:
    """A copy of the project to kill long stages in; made once and copied for each worker."""
    from long_stages import Miniature

    with FileLock(shared / "miniature.lock"):
        if not (shared / "miniature.done").exists():
            Miniature.make(shared / "miniature", project=first_run)
            (shared / "miniature.done").touch()
    return Miniature(shutil.copytree(shared / "miniature", tmp_path_factory.mktemp("miniature") / "project"))
