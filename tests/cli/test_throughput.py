"""Benchmarks run on a small model, and both ways give the same features."""

from __future__ import annotations

import json
import math

import pytest
import torch
from rich.console import Console

from wsoup.base.errors import ParamsError
from wsoup.cli.throughput import bench_images, bench_text, shown, table

CPU = torch.device("cpu")
WORDS = ["sharp", "old", "grey", "tall", "cold", "wooden", "small", "wet", "bright", "long", "soft", "round"]
CLAUSES = ["which has a tail", "which has a nose", "which is old"]


@pytest.fixture(autouse=True)
def tiny_clip_is_known(tiny_encoder_files):
    """Registers the config of the model "tiny-clip"."""


def test_text():
    result = bench_text(
        "tiny-clip", pools={"words": WORDS, "clauses": CLAUSES}, classes=7, device=CPU, rounds=2, block=5
    )
    assert result["texts"] == "fast"
    assert [row["pool"] for row in result["rows"]] == ["words", "clauses"]
    words, clauses = result["rows"]
    assert words["tokens_per_text"] == 2
    # "which"; "has a" and "is old" + end; "tail" and "nose", each + end. The second round finds "which" kept.
    assert clauses["tokens_per_text"] == pytest.approx((10 / 3 + 9 / 3) / 2)
    assert (words["candidates"], words["stage_candidates"], clauses["stage_candidates"]) == (12, 9894, 3)
    for row in result["rows"]:
        assert row["ratio_least"] <= row["ratio"] <= row["ratio_most"]
        assert row["cosine_distance"] < 1e-6
        assert row["efficiency"] > 0
        assert math.isclose(row["texts_per_s"] * row["ours"], 1)
    json.dumps(result)


def test_text_in_two_precisions():
    """A row per precision, with the speed of its own matrix products."""
    result = bench_text(
        "tiny-clip", pools={"words": WORDS}, classes=7, device=CPU, precisions=["fp32", "bf16"], rounds=1, block=5
    )
    assert [row["precision"] for row in result["rows"]] == ["fp32", "bf16"]
    full, half = result["rows"]
    assert full["cosine_distance"] < 1e-6 < half["cosine_distance"] < 1e-2
    assert all(row["matmul_flops_per_s"] > 0 < row["efficiency"] for row in result["rows"])


@pytest.mark.parametrize("classes", [0, 1001])
def test_the_number_of_classes_is_at_most_imagenets(classes):
    with pytest.raises(ParamsError, match=f"from 1 to 1000, got {classes}"):
        bench_text("tiny-clip", pools={"words": WORDS}, classes=classes, device=CPU)


def test_unknown_precisions_are_refused():
    with pytest.raises(ParamsError, match=r"bench: precision"):
        bench_text("tiny-clip", pools={"words": WORDS}, classes=7, device=CPU, precisions=["fp8"])


def test_images():
    result = bench_images("tiny-clip", count=9, device=CPU, batch_size=4)
    (row,) = result["rows"]
    assert row["images"] == 9
    assert row["cosine_distance"] < 1e-6
    assert row["flops_per_s"] > 0
    json.dumps(result)


def test_a_table_shows_units():
    result = {
        "bench": "text",
        "model": "ViT",
        "peak_memory": 3 << 30,
        "rows": [{"pool": "words", "ours": 0.00125, "ratio": 33.33, "flops_per_s": 2e11}],
    }
    lines = [line.rstrip() for line in table_lines(result)]
    assert lines[0] == "text: model ViT, peak memory 3.00 GiB"
    assert [line.split() for line in lines[2:]] == [
        ["ours", "1.25", "ms"],
        ["ratio", "33.3", "x"],
        ["flops", "per", "s", "200", "GFLOP/s"],
    ]


def table_lines(result) -> list[str]:
    console = Console(width=120)
    with console.capture() as text:
        console.print(table(result))
    return text.get().splitlines()


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("same_chain", True, "yes"),
        ("patience", 1250, "1,250"),
        ("stage_s", 90.0, "90.0 s"),
        ("stage_s", 9000.0, "2.5 h"),
        ("efficiency", 0.876, "88 %"),
        ("cosine_distance", 1.5e-12, "1.5e-12"),
        ("texts_per_s", 1250.4, "1,250"),
    ],
)
def test_values_have_units(key, value, text):
    assert shown(key, value) == text
