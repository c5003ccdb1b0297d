"""The stage as a process: its files, its errors, and that a kill in the middle changes nothing."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from PIL import Image

from wsoup import store
from wsoup.errors import MismatchError, MissingError, ParamsError

ROOT = Path(__file__).parents[2]
COLOURS = {"blue": (40, 50, 210), "green": (30, 180, 40), "red": (200, 30, 30)}
COMMON = {"soup": "word", "learning_rate": 0.01, "prompt_factor": 1}


@pytest.fixture
def world(in_tmp: Path, tiny_encoder, tiny_encoder_files) -> Path:
    """params.yaml, images, manifest, splits and soups of three colours and two seeds."""
    rng, rows = np.random.default_rng(0), []
    for label, (name, colour) in enumerate(COLOURS.items()):
        for number in range(4):
            path = Path("images/train") / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.clip(np.array(colour) + rng.normal(0, 25, (20, 20, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(path)
            rows.append({"path": str(path.relative_to("images")), "label": label})
    attributes = {"class_names": list(COLOURS), "template": "a photo of a {}."}
    store.write_table("manifest.parquet", pa.Table.from_pylist(rows), attributes=attributes)
    members = [{"text": text, "trace": []} for text in ("sharp", "old nice", "big")]
    for seed in (1, 2):
        chosen = [row for i, row in enumerate(rows) if i % 4 != seed]
        store.write_table(f"splits/seed{seed}.parquet", pa.Table.from_pylist(chosen))
        store.write_soup(
            f"soups/seed{seed}.json",
            kind="word",
            seed=seed,
            template=attributes["template"],
            encoder=tiny_encoder.id,
            members=members,
        )
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    source = {"role": "source", "layout": "imagefolder", "root": "images", "watch": "images"}
    params |= {"source": "colours", "seeds": [1, 2], "encoder": tiny_encoder_files}
    params["datasets"] = {"colours": {**source, "template": attributes["template"]}}
    taught = {"kind": "cross_entropy", "lambda": 0.25, "teacher_logit_scale": 10}
    params["finetune"] |= {"iterations": 60, "batch_size": 3, "log_every": 20}
    params["finetune"]["methods"] = {
        "ce": {"tune": {"kind": "last_blocks", "blocks": 1, "prompt_tokens": 3}, "loss": taught, **COMMON},
        "coop": {"tune": {"kind": "prompt", "tokens": 3}, "loss": taught, **COMMON},
    }
    Path("params.yaml").write_text(yaml.safe_dump(params))
    return in_tmp


def command(method: str, out: str, *more: str) -> list[str]:
    paths = ["--splits", "splits", "--manifest", "manifest.parquet", "--soups", "soups", "--out", out]
    return [sys.executable, str(ROOT / "stages/finetune.py"), method, *paths, *more]


def environment(cache: str) -> dict[str, str]:
    return {**os.environ, "WSOUP_CACHE": cache, "WSOUP_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}


def files(folder: str) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*.*"))}


def test_a_training_that_is_killed_goes_on_and_ends_with_the_same_bytes(world):
    subprocess.run(command("ce", "whole"), env=environment("first"), check=True)
    names = {"config.json", "log.csv", "weights.safetensors"}
    assert set(files("whole")) == {f"seed{seed}/{name}" for seed in (1, 2) for name in names}

    killed = subprocess.Popen(command("ce", "out", "--save-seconds", "0"), env=environment("second"))
    while not list(Path("second").rglob("*.safetensors")):  # until the first state is saved
        assert killed.poll() is None
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not Path("out").exists()

    subprocess.run(command("ce", "out"), env=environment("second"), check=True)
    assert files("out") == files("whole")


def call(method: str, out: str) -> None:
    """The stage in this process, where starting another shows nothing more."""
    paths = {"splits": "splits", "manifest": "manifest.parquet", "soups": "soups", "out": out}
    stage = runpy.run_path(str(ROOT / "stages/finetune.py"))
    stage["main"](method, **{name: Path(path) for name, path in paths.items()})


def test_a_finished_seed_is_not_trained_again(world, monkeypatch):
    monkeypatch.setenv("WSOUP_DEVICE", "cpu")
    call("coop", "out")
    before, states = files("out"), sorted(Path(".cache/wsoup/finetune").iterdir())
    times = [state.stat().st_mtime_ns for state in states]
    assert len(states) == 2
    call("coop", "out")
    assert files("out") == before
    assert [state.stat().st_mtime_ns for state in states] == times


def test_an_unknown_method_is_refused(world):
    with pytest.raises(ParamsError, match=r"finetune.methods has no 'lora'; it has ce, coop"):
        call("lora", "out")


def test_a_soup_of_another_encoder_is_refused(world):
    soup = store.read_json("soups/seed1.json")
    store.write_json("soups/seed1.json", {**soup, "encoder": {**soup["encoder"], "weights": "other"}})
    with pytest.raises(MismatchError, match=r"was made with another encoder \(weights:"):
        call("coop", "out")
    assert not Path("out").exists()


def test_images_that_are_gone_are_named(world):
    Path("images").rename("elsewhere")
    with pytest.raises(MissingError, match=r"datasets.colours.root: folder images does not exist"):
        call("coop", "out")
