"""`wsoup try` and a pipeline of `wsoup profile own` on the same photos: one soup, one set of names, one sentence."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from project import ROOT, call_stage
from run_cli import run
from small_world import COLOURS, write_image_folder

from wsoup.photos import trial
from wsoup.soup.soup import Soup

CLASSES = {"redRose_easy": COLOURS["red"], "green_tea": COLOURS["green"], "01-blue": COLOURS["blue"]}
WORDS = 70
"""In place of 10,000, which the pipeline would rank for minutes."""


def repro() -> None:
    """The stages that lead to the answer, in this process."""
    for stage, item in (
        ("prepare", "photos"),
        ("fewshot", None),
        ("embed", "photos"),
        ("embed_train", None),
        ("candidates", None),
        ("evaluated", None),
        ("score", "words"),
        ("soup", "sample"),
        ("head", "both"),
        ("evaluate", None),
        ("survey", None),
        ("report", None),
    ):
        call_stage(stage, *[item] if item else [])


@pytest.mark.parametrize("n_test", [4, 40], ids=["judged in turn", "judged by held-out photos"])
def test_both_name_the_same_row_in_the_same_words(n_test, in_tmp, tiny_encoder_files, monkeypatch):
    monkeypatch.setenv("WSOUP_DEVICE", "cpu")
    monkeypatch.setattr(trial, "COMMON_WORDS", WORDS)
    write_image_folder(Path("photos"), splits={"train": 6, "test": n_test}, classes=CLASSES)
    (Path("photos/test/green_tea/00.png")).rename("photos/test/redRose_easy/odd.png")  # so that not all are right
    options = ("pretrained", "config", "interpolation")
    where = [part for name in options for part in (f"--{name}", tiny_encoder_files[name])]
    code, tried, errors = run("try", "photos", *where)
    assert code == 0, errors
    *rows, _, sentence, _ = tried.splitlines()

    shutil.copytree(ROOT / "data", "data", ignore=shutil.ignore_patterns("toy"))
    code, _, errors = run("profile", "own", "--images", "photos", *where, "--out", "params.yaml")
    assert code == 0, errors
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["candidates"]["words"]["count"] = WORDS
    # Neither is asked: they would only cost time.
    params["soups"] = {"sample": params["soups"]["sample"]}
    params["evaluate"] |= {"baseline_m": 2, "survey": {"descriptors": 2, "chains": 2, "chain_length": 2, "m": 2}}
    params["landscape"]["soup"] = "sample"
    Path("params.yaml").write_text(yaml.safe_dump(params))
    repro()

    names = [line.split("\t")[1] for line in Path("tried/classes.txt").read_text().splitlines()]
    assert names == ["blue", "green tea", "red rose"]
    soup = Soup.load("artifacts/soups/sample/seed1.json")
    assert (soup.kind, soup.texts) == ("sample", Soup.load("tried/soup.json").texts)
    assert ("judged on" in sentence) == (n_test == 4)
    printed = run("results")[1]
    assert sentence in " ".join(printed.split())
    assert [row[: trial.WIDTH].strip() for row in rows[:4]] == [line[:23].strip() for line in printed.splitlines()[-4:]]
    metrics = json.loads(Path("reports/metrics.json").read_text())
    accuracies = [float(re.search(r"([0-9.]+) % \(", row)[1]) for row in rows[:4]]
    assert [metrics[key]["source"] for key in ("class_name", "templates", "soup", "head")] == accuracies
