"""`wsoup profile paper --methods all` on all 15 datasets in miniature, through DVC: every row of the paper."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import open_clip
import pytest
import torch
import yaml
from miniature import VARIANTS, WNIDS, build_coop
from processes import ROOT, warm_python
from safetensors.torch import save_file

from wsoup.datasets.paper import PAPER

CONFIG = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 16, "layers": 3, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 3},
}
TABLES = {"zero_shot": 12, "few_shot": 19, "diversity_ablation": 10, "parameter_efficiency": 55}
"""The paper's rows that it ran, of all tables that have ImageNet as source and ViT-B/16."""


def write_encoder(folder: Path) -> dict[str, Any]:
    """A ViT CLIP of three blocks a tower, with random weights."""
    folder.mkdir()
    config = folder / "three-blocks.json"
    config.write_text(json.dumps(CONFIG))
    open_clip.add_model_config(config)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = open_clip.create_model("three-blocks")
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, folder / "three-blocks.safetensors")
    pretrained = str(folder / "three-blocks.safetensors")
    about = {"model": "three-blocks", "pretrained": pretrained, "config": str(config)}
    return about | {"interpolation": "bilinear", "precision": "fp32", "watch": str(folder)}


def write_descriptors(folder: Path) -> None:
    """GPT descriptors for every class of the miniature."""
    folder.mkdir()
    classes = {found.gpt: [f"{name}_class {label}" for label in range(3)] for name, found in PAPER.items()}
    classes |= {"imagenet": list(WNIDS.values()), "planes": list(VARIANTS)}
    for name, names in classes.items():
        texts = {
            key: [f"a {word} thing", f"{word} parts"] for key, word in zip(names, ("red", "old", "wet"), strict=True)
        }
        (folder / f"descriptors_{name}.json").write_text(json.dumps(texts))


def changes(raw: dict[str, Any], *, encoder: dict[str, Any]) -> list[str]:
    """What `dvc exp run` sets: small numbers, with all methods, soups and rows as they are."""
    small = {f"encoder.{key}": value for key, value in encoder.items()}
    small |= {"seeds": "[1]", "fewshot.shots": 2, "candidates.words.count": 16}
    tiny = {"k0": 3, "k1": 8, "patience": 2, "max_words": 2}
    for name, soup in raw["soups"].items():
        small |= {f"soups.{name}.{key}": value for key, value in tiny.items() if key in soup}
    small |= {"soups.sample.m": 4, "soups.descriptor_sample.k1": 4, "soups.descriptor_sample.m": 4}
    small |= {"finetune.iterations": 1, "finetune.log_every": 1, "finetune.methods.coop_ensemble.iterations": 8}
    small |= {"evaluate.baseline_m": 2, "evaluate.tuned_baseline_m": 2, "evaluate.offsets": "[0,5]"}
    small |= {"evaluate.survey.chains": 2, "evaluate.survey.chain_length": 2, "landscape.steps": 1}
    small |= {"report.gallery": 0}
    assert all(_has(raw, key) for key in small), "as the profile calls them"
    return [part for key, value in small.items() for part in ("-S", f"{key}={value}")]


def _has(raw: dict[str, Any], key: str) -> bool:
    section, _, rest = key.partition(".")
    return section in raw and (not rest or _has(raw[section], rest))


def make_project(folder: Path) -> None:
    """The project's pipeline in a git repository of its own, with what the profile prints as params.yaml."""
    ignored = shutil.ignore_patterns("__pycache__", "cache", "tmp", "toy")
    for name in ("stages", "wsoup", "data", ".dvc"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("dvc.yaml", ".dvcignore", ".gitignore"):
        shutil.copy(ROOT / name, folder / name)


@pytest.mark.slow
def test_every_row_of_the_paper_is_filled_and_none_is_unmarked(tmp_path):
    """Some 190 stages, forked off one process (`warm_python`)."""
    project = tmp_path / "project"
    make_project(project)
    build_coop(tmp_path / "data", train=2, test=2)
    write_descriptors(tmp_path / "gpt")
    encoder = write_encoder(tmp_path / "encoder")

    def run(*command: str) -> str:
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "WSOUP_CACHE")}
        done = subprocess.run(command, cwd=project, env=environment | warm_python(), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
        return done.stdout

    where = ["--data-root", str(tmp_path / "data"), "--gpt-descriptors", str(tmp_path / "gpt")]
    text = run(sys.executable, "-m", "wsoup.cli.app", "profile", "paper", *where, "--methods", "all")
    (project / "params.yaml").write_text(text)
    run("git", "init", "-q")
    run("git", "config", "user.email", "nobody@example.org")
    run("git", "config", "user.name", "nobody")
    run("git", "add", "-A")
    run("git", "commit", "-q", "-m", "profile paper")
    printed = run("dvc", "exp", "run", *changes(yaml.safe_load(text), encoder=encoder))
    check_tables(project / "reports/tables")
    assert "* not comparable with the paper's: soups.word.k0: 3, the paper's 250" in printed


def check_tables(folder: Path) -> None:
    for name, count in TABLES.items():
        with open(folder / f"{name}.csv", encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        beside = [line for line in lines if line["imagenet (paper)"]]
        assert len(beside) == count, name
        for line in beside:
            assert all(line[f"{dataset} (paper)"] for dataset in (*PAPER, "XD mean", "DG mean")), line["method"]
            assert all(line[dataset] for dataset in PAPER), line["method"]
        text = (folder / f"{name}.md").read_text()
        unmarked = [cell for cell in text.replace("*)", "").split("|") if "(" in cell and cell.strip().endswith(")")]
        assert [cell for cell in unmarked if "," in cell] == [], name
        assert "finetune.iterations: 1, the paper's 750" in text or name == "zero_shot"
