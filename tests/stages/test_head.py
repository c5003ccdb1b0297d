"""Stage head with a small real encoder: which images it sees, results, resuming."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
import yaml
from project import ROOT, call_stage, stage_module
from yaml_in_c import safe_load

from wsoup.base.errors import DataError
from wsoup.core.member import Member
from wsoup.core.soup import Soup
from wsoup.disk import store
from wsoup.disk.shards import Owner
from wsoup.heads.head import Head
from wsoup.heads.zero_shot import class_texts
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.features import ImageFeatures, read_features, write_features

TEMPLATE = "a photo of a {}."
NAMES = ["ant", "bee", "cat", "dog"]
RESULTS = "artifacts/results/heads/mine.parquet"
TESTS = {"photo": ("source", NAMES), "sketch": ("dg", ["dog", "bee"]), "other": ("xd", ["sky", "soil", "sea"])}


@pytest.fixture
def world(in_tmp: Path, tiny_encoder, tiny_encoder_files, monkeypatch) -> Path:
    """Image features near class texts for a source, a shift with some of its classes, and other classes."""
    monkeypatch.setenv("WSOUP_DEVICE", "cpu")
    for seed in (1, 2):
        for name, members in {"class_name": ("",), "word": ("sharp", "old nice")}.items():
            soup = Soup(name, seed, TEMPLATE, tiny_encoder.id, tuple(map(Member, members)))
            soup.save(f"artifacts/soups/{name}/seed{seed}.json")
    texts, draw = PromptEncoder.of(tiny_encoder), torch.Generator().manual_seed(0)
    for name, (role, class_names) in TESTS.items():
        of_classes = class_texts(soup, template=TEMPLATE, class_names=class_names, text_encoder=texts)
        for split, per_class in (("test", 30), ("train", 6 if role == "source" else 0)):
            labels = torch.arange(len(class_names)).repeat_interleave(per_class)
            noise = 0.15 * torch.randn(len(labels), 16, generator=draw)
            x = torch.nn.functional.normalize(of_classes[labels] + noise, dim=1).numpy()
            about = {"dataset": name, "split": split, "role": role, "class_names": class_names, "template": TEMPLATE}
            about["encoder"] = tiny_encoder.id
            path = f"artifacts/embeddings/pretrained/{name}-{split}.zarr"
            if per_class:
                write_features(path, ImageFeatures(x, labels.numpy(), np.arange(len(x)), about))
    for seed in (1, 2):
        rows = [row for row in range(24) if row % 6 != seed]
        store.write_table(f"artifacts/splits/photo/seed{seed}.parquet", pa.table({"row": rows}))
    store.write_checked_object("artifacts/evaluated.json", {"datasets": [{"name": name} for name in TESTS]})
    params = safe_load((ROOT / "params.yaml").read_text())
    params |= {"source": "photo", "seeds": [1, 2], "encoder": tiny_encoder_files}
    params["heads"] = {"mine": {"kind": "both", "soup": "word"}, "plain": {"kind": "prototypes", "soup": "class_name"}}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    return in_tmp


def test_a_head_is_made_for_each_seed(world, tiny_encoder):
    call_stage("head", "mine")
    for seed in (1, 2):
        head = Head.load(f"artifacts/heads/mine/seed{seed}.safetensors", encoder=tiny_encoder.id)
        assert (head.kind, head.n_images, list(head.class_names), head.soup.seed) == ("both", 20, NAMES, seed)
        assert head.logit_scale == pytest.approx(float(tiny_encoder.model.logit_scale.exp()))


def test_other_test_images_make_the_same_head_and_other_counts(world):
    """The stage also evaluates, so its deps name targets; but a head is the same, byte for byte, whatever they are."""
    call_stage("head", "mine")
    first, counts = head_files(), store.read_table(RESULTS)["n_correct"].to_pylist()
    for path in Path("artifacts/embeddings/pretrained").glob("*-test.zarr"):
        test = read_features(path)
        write_features(path, replace(test, labels=np.roll(test.labels, 30), features=np.roll(test.features, 1, 1)))
    call_stage("head", "mine")
    assert head_files() == first
    assert store.read_table(RESULTS)["n_correct"].to_pylist() != counts


def head_files() -> list[bytes]:
    return [Path(f"artifacts/heads/mine/seed{seed}.safetensors").read_bytes() for seed in (1, 2)]


def test_a_head_has_rows_for_datasets_of_its_classes_only(world):
    for name in ("mine", "plain"):
        call_stage("head", name)
    lines = store.read_table(RESULTS).to_pylist()
    assert {(line["dataset"], line["role"]) for line in lines} == {("photo", "source"), ("sketch", "dg")}
    assert {(line["variant"], line["method"], line["mode"], line["m"]) for line in lines} == {
        ("mine", "word_soup", "centroid", 2)
    }
    assert len(lines) == 4
    head = Head.load("artifacts/heads/mine/seed2.safetensors")
    sketch = read_features("artifacts/embeddings/pretrained/sketch-test.zarr")
    logits = head.logits(sketch.features)
    by_hand = sum(int(logits[i, [3, 1]].argmax()) == label for i, label in enumerate(sketch.labels))
    (line,) = [line for line in lines if (line["dataset"], line["seed"]) == ("sketch", 2)]
    assert (line["n_correct"], line["n_images"]) == (by_hand, 60)
    about = store.table_attributes(RESULTS)
    assert (about["parameters"], about["soup"]) == (16 * 4, "word")
    assert about["in_turn"] == {}, "120 test images judge alone"
    assert about["left_out"] == [["both", head_.n_correct, 20] for head_ in map(load, (1, 2))]
    assert store.read_table("artifacts/results/heads/plain.parquet")["method"][0].as_py() == "class_name"


def load(seed: int) -> Head:
    return Head.load(f"artifacts/heads/mine/seed{seed}.safetensors")


def test_an_interrupted_head_resumes_with_the_missing_seed(world, monkeypatch, capsys):
    module = stage_module("head")
    owner, real, calls = Owner.of(ROOT / "stages/head.py", name="head@mine"), module.best_head, []

    def interrupted(*arguments, **given):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **given)

    monkeypatch.setattr(module, "best_head", interrupted)
    with pytest.raises(KeyboardInterrupt):
        module.main(owner, "mine")
    module.main(owner, "mine")
    assert len(calls) == 3
    assert "1 of 2 seeds were finished before" in capsys.readouterr().err
    resumed = head_files()
    call_stage("head", "mine")
    assert head_files() == resumed


def test_a_class_without_few_shot_images_is_named(world):
    store.write_table("artifacts/splits/photo/seed1.parquet", pa.table({"row": [0, 6, 12]}))
    with pytest.raises(DataError, match="no image of 'dog': a head needs one of each class"):
        call_stage("head", "mine")
