"""Every layout, including all 15 datasets of the paper in miniature, through prepare, embed, score, soup, evaluate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from miniature import build_coop, draw, write_huggingface
from project import call_stage, search_soups
from yaml_in_c import safe_load

from wsoup.datasets.paper import PAPER
from wsoup.disk import store
from wsoup.evaluate.rows import WAFFLE, Material
from wsoup.pipeline.profiles.paper import Paper
from wsoup.towers.features import read_features

OTHERS = {
    "folder": {"layout": "imagefolder", "root": "folder"},
    "list": {"layout": "manifest:list.csv", "root": "folder"},
    "saved": {"layout": "huggingface", "root": "saved", "test_split": "val"},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, tiny_encoder_files: dict[str, str]) -> Path:
    """A working folder with data in every layout and a small params.yaml of the paper, run up to evaluation."""
    root = tmp_path_factory.mktemp("world")
    build_coop(root / "data")
    for name in ("test/ant/1.png", "test/bee/2.png", "test/bee/3.png"):
        draw(root / "folder" / name)
    (root / "folder/list.csv").write_text("path,class_name\ntest/ant/1.png,ant\ntest/bee/3.png,bee\n")
    write_huggingface(root / "saved")
    raw = safe_load(Paper("data").text())
    (root / "params.yaml").write_text(yaml.safe_dump(_small(raw, encoder=tiny_encoder_files)))
    (root / "texts").mkdir()
    (root / "texts/descriptors.txt").write_text("which is red\nwhich has legs\nwhich can fly\n")
    (root / "texts/waffle.txt").write_text(", which has hatch injuri.\n\n, which is any venomo.\n, which has x7, Qq.\n")
    named = {f"DTD_Class {label}": ["stripes", f"made of {label} lines"] for label in (2, 0, 1)}
    (root / "texts/dtd.json").write_text(json.dumps(named))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.delenv("WSOUP_CACHE", raising=False)
        _run([*PAPER, *OTHERS])
    return root


def _small(raw: dict[str, Any], *, encoder: dict[str, str]) -> dict[str, Any]:
    """The paper's params with the tiny encoder, small pools, and the other layouts as targets."""
    plain = {"role": "xd", "watch": "params.yaml", "template": "a photo of a {}."}
    raw["datasets"] |= {name: plain | section for name, section in OTHERS.items()}
    raw |= {"encoder": encoder, "seeds": [1, 2], "fewshot": {"shots": 2}}
    raw["finetune"]["methods"] = {}  # the tiny encoder has too few blocks
    del raw["report"]["method"]
    raw["datasets"]["dtd"]["gpt_descriptors"] = "texts/dtd.json"
    raw["candidates"]["words"] |= {"count": 12}
    raw["candidates"] |= {"descriptors": {"paths": ["texts/descriptors.txt"], "period": True}, "watch": "texts"}
    raw["candidates"]["waffle"] = "texts/waffle.txt"
    raw["soups"]["word"] |= {"k0": 4, "k1": 8, "patience": 4, "m": 2}
    raw["soups"] = {"word": raw["soups"]["word"], "descriptor": {"kind": "greedy", "pool": "descriptors", "m": 2}}
    raw["evaluate"] |= {"m": [1, 2], "baseline_m": 2, "tuned_baseline_m": 2, "offsets": [0], "ensemble": False}
    return raw


def _run(datasets: list[str]) -> None:
    search_soups(datasets)
    call_stage("evaluate")


def test_every_dataset_is_evaluated_on_all_its_test_images(world: Path) -> None:
    results = store.read_table(world / "artifacts/results/pretrained/results.parquet").to_pylist()
    counts = {row["dataset"]: row["n_images"] for row in results}
    assert {name: counts.pop(name) for name in PAPER} == dict.fromkeys(PAPER, 6)
    assert counts == {"folder": 3, "list": 2, "saved": 3}
    assert {row["method"] for row in results} >= {"class_name", "word_soup", "descriptor_soup"}


def test_features_have_the_labels_of_the_manifest(world: Path) -> None:
    for name in (*PAPER, *OTHERS):
        manifest = store.read_table(world / f"artifacts/manifests/{name}.parquet")
        features = read_features(world / f"artifacts/embeddings/pretrained/{name}-test.zarr")
        assert np.array_equal(features.labels, manifest["label"].to_numpy()[features.rows])
        assert (
            features.class_names == store.table_attributes(world / f"artifacts/manifests/{name}.parquet")["class_names"]
        )


def test_few_shot_splits_point_into_the_manifest(world: Path) -> None:
    manifest = store.read_table(world / "artifacts/manifests/imagenet.parquet")
    for seed in (1, 2):
        split = store.read_table(world / f"artifacts/splits/imagenet/seed{seed}.parquet")
        assert split["path"].to_pylist() == manifest["path"].take(pa.array(split["row"].to_numpy())).to_pylist()
        assert split["label"].to_pylist() == [0, 0, 1, 1, 2, 2]


def test_waffles_texts_are_drawn_from_a_given_list(world: Path) -> None:
    listed = json.loads((world / "artifacts/evaluated.json").read_text())["waffle"]
    assert listed == [", which has hatch injuri", ", which is any venomo", ", which has x7, Qq"]
    assert set(WAFFLE.texts(Material((1,), waffle=listed), 1, 2)) < set(listed)
    attributes = store.table_attributes(world / "artifacts/results/pretrained/results.parquet")
    assert attributes["pools"]["waffle"]["count"] == 3


def test_gpt_descriptors_are_matched_to_the_classes_of_the_manifest(world: Path) -> None:
    datasets = json.loads((world / "artifacts/evaluated.json").read_text())["datasets"]
    by_class = {dataset["name"]: dataset["gpt"] for dataset in datasets if dataset["gpt"]}
    assert list(by_class) == ["dtd"]
    assert by_class["dtd"]["dtd class 1"] == ["which has stripes", "which has made of 1 lines"]
    results = store.read_table(world / "artifacts/results/pretrained/results.parquet").to_pylist()
    assert {row["dataset"] for row in results if row["method"].startswith("gpt")} == {"dtd"}
