"""`wsoup profile paper --methods all` on all 15 datasets in miniature: every row of the paper.

DVC runs everything but most of the sixty methods. Their stages are the same two with other params, so they are run
directly: DVC's bookkeeping of each stage takes longer than the stage.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import open_clip
import pytest
import torch
import yaml
from miniature import VARIANTS, WNIDS, build_coop, draw, write_pickles
from processes import warm_python
from project import copy_pipeline
from repository import commit, new_repository
from safetensors.torch import save_file
from tower_cases import CONFIG
from yaml_in_c import safe_load

from wsoup.datasets.paper import PAPER
from wsoup.paper import coverage
from wsoup.paper import tables as paper
from wsoup.pipeline.params import parse_params

TABLES = {"zero_shot": 12, "few_shot": 19, "diversity_ablation": 10, "parameter_efficiency": 55}
"""Number of the paper's rows that were run, in each table with ImageNet as source and ViT-B/16."""
BY_DVC = ("evaluate", "survey", "head", "evaluate_tuned@coop", "evaluate_tuned@ce_diverse", "landscape")
"""Stages that DVC runs, with all that they need."""


def write_encoder(folder: Path, *, model: str) -> dict[str, Any]:
    """A ViT CLIP with three blocks per tower and random weights, under the name of a model."""
    folder.mkdir()
    for name in ("three-blocks", model):  # in this process no model of open_clip's own is overwritten
        (folder / f"{name}.json").write_text(json.dumps(CONFIG))
    open_clip.add_model_config(folder / "three-blocks.json")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = open_clip.create_model("three-blocks")
    weights = {name: tensor.contiguous() for name, tensor in made.state_dict().items()}
    save_file(weights, folder / "weights.safetensors")
    about = {"model": model, "pretrained": str(folder / "weights.safetensors"), "config": str(folder / f"{model}.json")}
    return about | {"interpolation": "bilinear", "precision": "fp32", "watch": str(folder)}


def write_descriptors(folder: Path) -> None:
    """GPT descriptors for every class of the miniature."""
    folder.mkdir()
    classes = {dataset.gpt: [f"{name}_class {label}" for label in range(3)] for name, dataset in PAPER.items()}
    classes |= {"imagenet": list(WNIDS.values()), "planes": list(VARIANTS)}
    for name, names in classes.items():
        texts = {
            key: [f"a {word} thing", f"{word} parts"] for key, word in zip(names, ("red", "old", "wet"), strict=True)
        }
        (folder / f"descriptors_{name}.json").write_text(json.dumps(texts))
    words = ["time", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "house"]
    (folder / "google-10000-english-no-swears.txt").write_text("\n".join(words))
    (folder / "waffle_descriptors.txt").write_text(
        "\n".join(f", which is {word} {i}" for i in range(9) for word in words)
    )


def small(raw: dict[str, Any], *, encoder: dict[str, Any]) -> dict[str, Any]:
    """Small numbers by dotted key; methods, soups and rows stay as they are."""
    tiny = {f"encoder.{key}": value for key, value in encoder.items()}
    tiny |= {"seeds": [1]}
    search = {"k0": 3, "k1": 8, "patience": 2, "max_words": 2}
    for name, soup in raw["soups"].items():
        tiny |= {f"soups.{name}.{key}": value for key, value in search.items() if key in soup}
    tiny |= {"soups.sample.m": 4, "soups.descriptor_sample.k1": 4, "soups.descriptor_sample.m": 4}
    tiny |= {"finetune.iterations": 1, "finetune.log_every": 1}
    tiny |= {"evaluate.baseline_m": 2, "evaluate.tuned_baseline_m": 2, "evaluate.offsets": [0, 5]}
    tiny |= {"evaluate.survey.chains": 2, "evaluate.survey.chain_length": 2}
    tiny |= {"landscape.steps": 1, "landscape.margin": 1}
    return tiny | {"report.gallery": 0}


def _has(raw: dict[str, Any], key: str) -> bool:
    section, _, rest = key.partition(".")
    return section in raw and (not rest or _has(raw[section], rest))


@dataclass
class World:
    """A folder with a project, CoOp's folders in miniature, GPT descriptors and an encoder."""

    root: Path

    def run(self, *command: str) -> str:
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "WSOUP_CACHE")}
        environment |= warm_python()
        done = subprocess.run(command, cwd=self.root / "project", env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
        return done.stdout

    def train_and_evaluate(self, methods: list[str]) -> None:
        """Run the stages of some methods directly, one process for each processor at a time."""

        def both(method: str) -> None:
            for stage in ("finetune", "evaluate_tuned"):
                self.run("python", "stages", stage, method)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(both, methods))

    def profile(self, *options: str) -> str:
        """The output of `wsoup profile paper`."""
        where = ["--data-root", str(self.root / "data"), "--gpt-descriptors", str(self.root / "gpt")]
        return self.run(sys.executable, "-m", "wsoup.cli.app", "profile", "paper", *where, *options)

    def commit(self, text: str) -> None:
        """Commit a params.yaml in a new git repository."""
        (self.root / "project/params.yaml").write_text(text)
        new_repository(self.root / "project")
        commit(self.root / "project", "profile paper")


@pytest.fixture
def world(tmp_path) -> World:
    copy_pipeline(tmp_path / "project")
    build_coop(tmp_path / "data", train=17, test=2)
    write_pickles(tmp_path / "pickles", shots=16, seeds=(1,))
    write_descriptors(tmp_path / "gpt")
    return World(tmp_path)


@pytest.mark.slow
def test_every_row_of_the_paper_is_filled_and_marked(world):
    """The authors' files by their names: few-shot pickles, words, Waffle's texts. Some 190 stages."""
    words = world.root / "gpt/google-10000-english-no-swears.txt"
    text = world.profile("--methods", "all", "--words", str(words))
    raw = safe_load(text)
    changes = small(raw, encoder=write_encoder(world.root / "encoder", model="three-blocks"))
    changes["datasets.imagenet.fewshot_pickles"] = str(world.root / "pickles")
    changes["candidates.waffle"] = str(world.root / "gpt/waffle_descriptors.txt")
    changes["finetune.methods.coop_ensemble.iterations"] = 8
    new = [key for key in changes if not _has(raw, key)]
    added = {"encoder.config", "report.gallery", "datasets.imagenet.fewshot_pickles", "candidates.waffle"}
    assert {*new} == added, "the others as the profile calls them"
    world.commit(text)
    settings = [f"{'+' * (key in new)}{key}={value}" for key, value in changes.items()]
    world.run("dvc", "exp", "run", *(part for setting in settings for part in ("-S", setting)), *BY_DVC)
    results = world.root / "project/artifacts/results"
    world.train_and_evaluate(
        [name for name in raw["finetune"]["methods"] if not (results / f"{name}.parquet").exists()]
    )
    world.run("dvc", "repro", "--single-item", "report")
    check_tables(world.root / "project/reports/tables", counts=TABLES)
    check_figures(world.root / "project", made=20)
    notes = (world.root / "project/reports/tables/zero_shot.md").read_text()
    assert "* not comparable with the paper's: soups.word.k0: 3, the paper's 250" in notes


@pytest.mark.slow
def test_rows_with_laion_as_the_source_and_with_another_model(world):
    """One run for both: the table of LAION's images, and rows of model scaling under the model's name."""
    for wnid in WNIDS:
        for i in range(16):  # the paper's shots
            draw(world.root / "laion" / wnid / f"{i}.jpg")
    raw = safe_load(world.profile("--methods", "all", "--source", f"laion:{world.root}/laion"))
    methods = ("coop", "coop_diverse", "soft_random")
    raw["finetune"]["methods"] = {name: raw["finetune"]["methods"][name] for name in methods}
    raw["landscape"]["methods"] = ["soft_random"]
    for key, value in small(raw, encoder=write_encoder(world.root / "encoder", model="ViT-B-32")).items():
        section, last = key.rpartition(".")[::2]
        place = raw
        for name in filter(None, section.split(".")):
            place = place[name]
        place[last] = value
    world.commit(yaml.safe_dump(raw))
    world.run("dvc", "repro")
    check_tables(world.root / "project/reports/tables", counts={"model_scaling": 5, "laion_source": 4})
    check_figures(world.root / "project", made=13)
    notes = (world.root / "project/reports/tables/laion_source.md").read_text()
    assert "* not comparable with the paper's: datasets.laion: the authors' images of LAION are not published" in notes


def read(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def check_tables(folder: Path, *, counts: dict[str, int]) -> None:
    """Each of the paper's rows is next to ours with the right counts; every cell is filled and marked."""
    counted = {
        (line["variant"], line["row"], line["dataset"]): 100 * int(line["n_correct"]) / int(line["n_images"])
        for line in read(folder / "counts.csv")
    }
    for name, count in counts.items():
        table = "zero_shot" if name == "model_scaling" else name
        compared = [line for line in read(folder / f"{table}.csv") if line["dtd (paper)"]]
        assert len(compared) == count, name
        rows = [row for row in paper.rows(name) if row.row][: count if name == "model_scaling" else None]
        if name != "model_scaling":  # which calls its rows otherwise
            assert [line["method"] for line in compared] == [row.label for row in rows]
        for line, row in zip(compared, rows, strict=True):
            datasets = [column for column in line if (row.variant, row.row, column) in counted]
            assert len(datasets) == (0 if "@" in row.row else len(PAPER)), row.label
            assert all(float(line[d]) == pytest.approx(counted[row.variant, row.row, d], abs=0.01) for d in datasets)
            columns = {"laion" if d == "imagenet" and "laion (paper)" in line else d for d in PAPER}
            assert all(line[column] and line[f"{column} (paper)"] for column in (*columns, "XD mean", "DG mean"))
        text = (folder / f"{table}.md").read_text()
        unmarked = [cell for cell in text.replace("*)", "").split("|") if "(" in cell and cell.strip().endswith(")")]
        assert [cell for cell in unmarked if "," in cell] == [], name
        if name in TABLES and name != "zero_shot":
            assert "finetune.iterations: 1, the paper's 750" in text


def check_figures(project: Path, *, made: int) -> None:
    """Every figure of data/paper/figures.csv that this params.yaml makes exists and is not empty."""
    params = parse_params(safe_load((project / "params.yaml").read_text()), origin="params.yaml")
    settings = coverage.of_params(params.model_dump(mode="json", by_alias=True))
    figures = [line for line in paper.read("figures") if line["made_by"].startswith("reports/")]
    places = [figure["made_by"] for figure in figures if not list(coverage.lacks(figure["needs"].split(), settings))]
    assert len(places) == made
    for place in places:
        plot = project / f"{place}.json"
        assert json.loads(plot.read_text()) if plot.exists() else len(read(project / f"{place}.csv")) > 0, place
