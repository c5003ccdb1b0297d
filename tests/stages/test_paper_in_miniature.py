"""`wsoup profile paper --methods all` on all 15 datasets in miniature: every row of the paper's tables, all marked."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import open_clip
import pytest
import torch
import yaml
from miniature import VARIANTS, WNIDS, build_coop
from project import ROOT, call_stage
from safetensors.torch import save_file

from wsoup.datasets.paper import PAPER
from wsoup.profiles.paper import Choices, paper
from wsoup.report.paper import COLUMNS

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


def small(raw: dict[str, Any], *, encoder: dict[str, Any]) -> dict[str, Any]:
    """The same keys with small numbers: all methods and soups stay."""
    raw |= {"encoder": encoder, "seeds": [1, 2], "fewshot": {"shots": 2}}
    raw["candidates"]["words"] |= {"count": 20}
    tiny = {"k0": 4, "k1": 12, "patience": 3, "max_words": 3}
    for soup in raw["soups"].values():
        soup |= {key: tiny[key] for key in soup if key in tiny}
    raw["soups"]["descriptor_sample"] |= {"k1": 4, "m": 4}
    raw["finetune"] |= {"iterations": 2, "log_every": 1}
    raw["finetune"]["methods"]["coop_ensemble"]["iterations"] = 8
    raw["evaluate"] |= {"baseline_m": 2, "tuned_baseline_m": 3, "offsets": [0, 5]}
    raw["evaluate"]["survey"] |= {"chains": 2, "chain_length": 2}
    raw["landscape"]["steps"] = 1
    raw["report"]["bootstrap_samples"] = 20
    return raw


@pytest.mark.slow
def test_every_row_of_the_paper_is_filled_and_none_is_unmarked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WSOUP_CACHE", raising=False)
    build_coop(tmp_path / "data")
    write_descriptors(tmp_path / "gpt")
    (tmp_path / "data/paper").symlink_to(ROOT / "data/paper")
    raw = yaml.safe_load(paper(Choices("data", gpt_descriptors="gpt", methods="all")))
    raw = small(raw, encoder=write_encoder(tmp_path / "encoder"))
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(raw, sort_keys=False))
    for name in PAPER:
        call_stage("prepare", name)
        call_stage("embed", name)
    for name in ("embed_train", "fewshot", "candidates", "gpt_descriptors", "class_name_soup"):
        call_stage(name)
    for pool in ("words", "descriptors"):
        call_stage("score", pool)
    for soup in raw["soups"]:
        call_stage("soup", soup)
    for name in ("survey", "evaluate"):
        call_stage(name)
    for method in raw["finetune"]["methods"]:
        call_stage("finetune", method)
        call_stage("evaluate_tuned", method)
    for method in raw["landscape"]["methods"]:
        call_stage("landscape", method)
    capsys.readouterr()
    call_stage("report")
    check_tables(tmp_path / "reports/tables")
    assert "* not comparable with the paper's: soups.word.k0: 4, the paper's 250" in capsys.readouterr().out


def check_tables(folder: Path) -> None:
    for name, count in TABLES.items():
        with open(folder / f"{name}.csv", encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        beside = [line for line in lines if line["imagenet (paper)"]]
        assert len(beside) == count, name
        for line in beside:
            assert all(line[f"{dataset} (paper)"] for dataset in (*COLUMNS, "XD mean", "DG mean")), line["method"]
            assert all(line[dataset] for dataset in COLUMNS), line["method"]
        text = (folder / f"{name}.md").read_text()
        unmarked = [cell for cell in text.replace("*)", "").split("|") if "(" in cell and cell.strip().endswith(")")]
        assert [cell for cell in unmarked if "," in cell] == [], name
        assert "finetune.iterations: 2, the paper's 750" in text or name == "zero_shot"
