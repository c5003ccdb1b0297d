"""The toy world end to end on one device, in a temporary folder, with independent stages in parallel.

The order of stages is written out here, since DVC runs one stage at a time, which would take longer than all
measurements.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import open_clip
import yaml
from safetensors.torch import save_file

from wsoup.towers.models import random_model

ROOT = Path(__file__).parents[2]
AT_ONCE = min(8, os.cpu_count() or 1)
ROWS = (
    ("pretrained", "class_name"),
    ("pretrained", "descriptor_soup"),
    ("pretrained", "word_soup"),
    ("ce_diverse", "word_soup"),
    ("coop", "class_name"),
)


def run_world(folder: Path, *, device: str, toy: bool) -> list[str]:
    """All stages of params.yaml, the report last: lines of Markdown.

    Args:
        folder: a new folder for all files.
        device: of every stage.
        toy: only a few images, texts and steps, and an encoder with random weights.

    Raises:
        RuntimeError: a stage failed; with the end of its stderr.
    """
    for name in ("stages", "wsoup", "data"):
        shutil.copytree(ROOT / name, folder / name)
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    if toy:
        params = toy_params(params)
    (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    shutil.copy(ROOT / "dvc.yaml", folder)
    python = os.environ.get("PYTHON", sys.executable)
    _make_inputs(folder, python=python, toy=toy)
    environment = {name: value for name, value in os.environ.items() if name != "WSOUP_CACHE"}
    environment |= {"WSOUP_DEVICE": device}
    _run([python, "-m", "dvc", "init", "--no-scm", "--quiet"], folder=folder, environment=environment)
    _run([python, "-m", "wsoup", "packages", "--accept"], folder=folder, environment=environment)
    began, seconds = time.perf_counter(), dict[str, float]()

    def run(stage: str) -> None:
        start = time.perf_counter()
        _run([python, "stages", *stage.split()], folder=folder, environment=environment)
        seconds[stage] = time.perf_counter() - start

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for wave in waves(params):
            list(pool.map(run, wave))
    slowest = ", ".join(f"{name} {seconds[name]:.0f}" for name in sorted(seconds, key=lambda n: -seconds[n])[:5])
    whole = time.perf_counter() - began
    said = f"{len(seconds)} stages in {whole:.0f} s, {AT_ONCE} side by side; the slowest, in seconds: {slowest}."
    return [said] if toy else [said, "", *_accuracies(folder)]


def waves(params: dict[str, Any]) -> list[list[str]]:
    """The stages, in groups whose members are independent of each other."""
    datasets, soups, methods = params["datasets"], params["soups"], params["finetune"]["methods"]
    return [
        ["code"],
        [f"prepare {name}" for name in datasets],
        ["fewshot", "candidates", "evaluated", *(f"embed {name}" for name in datasets)],
        ["embed_train"],
        ["score words", "score descriptors"],
        ["survey", *(f"soup {name}" for name in soups)],  # evaluate needs the soup of survey, too
        [*(f"finetune {name}" for name in methods), *(f"head {name}" for name in params["heads"]), "evaluate"],
        [*(f"evaluate_tuned {name}" for name in methods)],
        ["report"],
    ]


def toy_params(params: dict[str, Any]) -> dict[str, Any]:
    """One source, one target, one soup and one method, all small."""
    datasets = {name: params["datasets"][name] for name in ("shapes", "counts")}
    params |= {"datasets": datasets, "seeds": [1]}
    params["candidates"]["words"]["count"] = 24
    params["soups"] = {"word": params["soups"]["word"] | {"k0": 3, "k1": 8, "patience": 3, "m": 2, "max_words": 2}}
    params["finetune"] |= {"iterations": 2, "methods": {"coop": params["finetune"]["methods"]["coop"]}}
    params["finetune"]["methods"]["coop"] |= {"snapshots": {"every": 2, "images": 4}}
    params["report"]["method"] = "coop"
    params["evaluate"] |= {"m": [1, 2], "baseline_m": 2, "tuned_baseline_m": 2, "ensemble": False}
    params["evaluate"]["survey"] = {"descriptors": 2, "chains": 2, "chain_length": 2, "m": 2}
    return params


def _make_inputs(folder: Path, *, python: str, toy: bool) -> None:
    """Make the world and its encoder, unless they exist; for `toy` an encoder with random weights."""
    place = folder / "data/toy"
    if toy:
        settings = yaml.safe_load((place / "params.yaml").read_text())
        settings["render"] |= {"train_per_class": 16, "test_per_class": 1, "target_per_class": 1}
        (place / "params.yaml").write_text(yaml.safe_dump(settings))
        for name in ("world", "encoder"):
            shutil.rmtree(place / name, ignore_errors=True)
        (place / "encoder").mkdir()
        shutil.copy(place / "toy-clip.json", place / "encoder")
        open_clip.add_model_config(place / "toy-clip.json")
        weights = random_model("toy-clip", seed=0)[0].state_dict()
        save_file({key: value.contiguous() for key, value in weights.items()}, place / "encoder/toy-clip.safetensors")
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    for script, made in (("render.py", "world"), ("encoder.py", "encoder")):
        if not (place / made).exists():
            _run([python, script, "--out", made], folder=place, environment={**os.environ, "PYTHONPATH": path})


def _run(command: list[str], *, folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])}: exit code {done.returncode}: {done.stderr.strip()[-1000:]}")


def _accuracies(folder: Path) -> list[str]:
    """Some rows of the results, beside those committed here, made on another machine."""
    results, committed = (json.loads((root / "reports/verdict.json").read_text())["rows"] for root in (folder, ROOT))
    lines = ["| row, accuracy in per cent | XD mean | committed | DG mean | committed |", "|---|---:|---:|---:|---:|"]
    for variant, row in ROWS:
        if row in results.get(variant, {}):
            pairs = [(results[variant][row], committed[variant].get(row, {}), key) for key in ("xd", "dg")]
            cells = [f"{table[key]:.1f}" if key in table else "" for *tables, key in pairs for table in tables]
            lines.append(f"| {variant}, {row.replace('_', ' ')} | {' | '.join(cells)} |")
    return lines
