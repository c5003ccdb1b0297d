"""Facts about `benchmarks/`: the scripts run on a small model, and both ways agree."""

from __future__ import annotations

import importlib.util
import json
from types import ModuleType

import pytest
import torch
from project import ROOT

from wsoup.base.errors import ParamsError

CPU = torch.device("cpu")
WORDS = ["sharp", "old", "grey", "tall", "cold", "wooden", "small", "wet", "bright", "long", "soft", "round"]


def script(name: str) -> ModuleType:
    """A script of `benchmarks/`, as a module."""
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_search(tiny_encoder_files):
    result = script("search").bench_search("tiny-clip", words=WORDS, classes=7, patience=11, device=CPU)
    (row,) = result["rows"]
    assert row["same_chain"]
    assert row["candidates_encoded"] >= 12
    assert row["chain_length"] > 1, "the small problem should accept a word"
    assert row["ours_s"] > 0 < row["plain_s"]


def test_search_in_bf16_does_not_claim_the_same_chain(tiny_encoder_files, capsys):
    """Both ways round, and not alike."""
    script("search").main(model="tiny-clip", classes=7, patience=11, device="cpu", precision="bf16")
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert "same_chain" not in row
    assert row["ratio"] > 0


def test_templates(tiny_encoder_files):
    result = script("templates").bench_templates(
        "tiny-clip", templates=["a {}.", "art of the {}.", "{}"], classes=5, device=CPU
    )
    (row,) = result["rows"]
    assert row["largest_difference"] < 1e-6
    assert row["ratio"] > 0


@pytest.mark.parametrize("classes", [0, 1001])
def test_the_number_of_classes_is_at_most_imagenets(classes):
    with pytest.raises(ParamsError, match=f"from 1 to 1000, got {classes}"):
        script("search").bench_search("tiny-clip", words=WORDS, classes=classes, patience=2, device=CPU)


def test_search_needs_enough_words(tiny_encoder_files):
    with pytest.raises(ParamsError, match="needs 13 words for patience 12, got 12"):
        script("search").bench_search("tiny-clip", words=WORDS, classes=7, patience=12, device=CPU)


def test_a_fast_training_step_has_the_plain_ways_gradients(capsys):
    train = script("train")
    result = train.bench_train("ViT-S-32-alt", classes=3, device=CPU, batch_size=2, repeats=1)
    assert [row["case"] for row in result["rows"]] == list(train.CASES)
    assert all(row["gradient_difference"] < 1e-5 for row in result["rows"])
    train.show(result)
    assert "ce + diversity" in capsys.readouterr().out


def test_counting(capsys):
    script("counting").main(images=300, classes=40, size=32, candidates=2, pairs=1, device="cpu")
    result = json.loads(capsys.readouterr().out)
    for row in result["rows"]:
        assert row["same"]
        assert 0 < row["open"] < 1
        assert row["ratio"] > 0
        assert row["with_likelihood_s"] > 0


def test_files(capsys):
    script("files").main(files=40)
    result = json.loads(capsys.readouterr().out)
    core_ms = result["core_ms_per_file"]
    assert min(core_ms.values()) > 0
    assert result["useful"] == pytest.approx((core_ms["decoding"] + core_ms["encoding"]) / core_ms["together"])
    assert 0 <= result["busy"] <= 1
    assert result["of_what_decoding_leaves"] > 0
    assert list(result["handing_over_ms"]) == ["pipe", "shared"]
