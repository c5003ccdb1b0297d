"""Runs at the edge of what params.yaml allows: one seed, one member, equal members, no target, no method, no head.

Every stage from the soups on works in this process on a tiny world; the report and its page must come out whole.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from project import DIVERSE, PROMPT, RATES, call_stage, miniature_params, write_miniature, write_params
from yaml_in_c import safe_load

from wsoup.report.page import write_page

SEEDS = [1, 2, 3]
TARGETS = ("other", "dim")
FIRST = ("prepare photo", "prepare other", "prepare dim", "fewshot", "embed photo", "embed other", "embed dim")
FIRST += ("embed_train", "candidates", "score words", "score descriptors")


@st.composite
def chains(draw: st.DrawFn) -> dict[str, Any]:
    k0 = draw(st.integers(1, 3))
    return {
        "kind": "chains",
        "pool": "words",
        "k0": k0,
        "k1": draw(st.integers(k0, 12)),
        "patience": draw(st.integers(1, 4)),
        "m": draw(st.integers(1, 3)),
        "max_words": draw(st.integers(1, 3)),
    }


GREEDY = st.builds(lambda m: {"kind": "greedy", "pool": "descriptors", "m": m}, m=st.integers(1, 3))
TOP = st.builds(
    lambda m, by: {"kind": "top", "pool": "words", "k1": 4, "m": m, "rank_by": by},
    m=st.integers(1, 4),
    by=st.sampled_from(["count", "count_k2"]),
)
SAMPLE = st.builds(lambda m: {"kind": "sample", "pool": "words", "k1": 4, "m": m}, m=st.integers(1, 4))
NAMES = st.sampled_from(["a", "word-like", "UPPER", "soup_2"])


@st.composite
def small_params(draw: st.DrawFn) -> dict[str, Any]:
    """What differs from the miniature's params: sections and values."""
    soups = {"word": draw(chains())}
    if draw(st.booleans()):
        soups["descriptor"] = draw(GREEDY)
    if draw(st.booleans()):
        soups[draw(NAMES)] = draw(st.one_of(TOP, SAMPLE, chains()))
    soup_names = st.sampled_from(list(soups))
    methods = {}
    if draw(st.booleans()):
        methods["plain"] = {"tune": PROMPT, "loss": {"kind": "cross_entropy"}, "soup": "class_name", **RATES}
    if draw(st.booleans()):
        snapshots = draw(st.sampled_from([None, {"every": 1, "images": 2}]))
        methods["diverse"] = {
            "tune": PROMPT,
            "loss": DIVERSE,
            "soup": draw(soup_names),
            **RATES,
            "snapshots": snapshots,
        }
    heads = {}
    if draw(st.booleans()):
        heads["h"] = {"kind": draw(st.sampled_from(["prototypes", "ridge", "both"])), "soup": draw(soup_names)}
    return {
        "seeds": draw(st.sampled_from([[1], [2, 1], [1, 2, 3]])),
        "targets": draw(st.sampled_from([(), ("other",), ("dim",), TARGETS])),
        "soups": soups,
        "methods": methods,
        "heads": heads,
        "report_soup": draw(soup_names),
        "report_method": draw(st.sampled_from([None, *methods])),
        "mode": draw(st.sampled_from(["centroid", "score_mean", "paper"])),
        "m": draw(st.sampled_from([[1], [1, 2], [2, 3]])),
        "baseline_m": draw(st.integers(1, 2)),
        "offsets": draw(st.sampled_from([[0], [5], [0, 5], [3, 5]])),
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory, tiny_encoder_files) -> Path:
    """Images, their features and scored pools, for every seed."""
    folder = tmp_path_factory.mktemp("small") / "world"
    folder.mkdir()
    write_miniature(folder, encoder=tiny_encoder_files)
    write_params(folder, {**miniature_params(tiny_encoder_files), "seeds": SEEDS})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("WSOUP_CACHE", raising=False)
        for stage in FIRST:
            call_stage(*stage.split())
    return folder


def run_and_check(world: Path, folder: Path, drawn: dict[str, Any]) -> None:
    """Run the stages behind the scores as params say, and check what a user reads."""
    shutil.copytree(world, folder)
    params = safe_load((folder / "params.yaml").read_text())
    params |= {"seeds": drawn["seeds"], "soups": drawn["soups"], "heads": drawn["heads"]}
    for name in TARGETS:
        if name not in drawn["targets"]:
            del params["datasets"][name]
            (folder / f"artifacts/manifests/{name}.parquet").unlink()
    params["finetune"] |= {"iterations": 2, "log_every": 1, "methods": drawn["methods"]}
    params["evaluate"] |= {key: drawn[key] for key in ("m", "baseline_m", "offsets")}
    params["evaluate"] |= {"tuned_baseline_m": drawn["baseline_m"], "ensemble": True}
    params["report"] |= {"soup": drawn["report_soup"], "mode": drawn["mode"], "method": drawn["report_method"]}
    write_params(folder, params)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("WSOUP_CACHE", raising=False)
        call_stage("evaluated")
        for name in drawn["soups"]:
            call_stage("soup", name)
        for name in drawn["methods"]:
            call_stage("finetune", name)
        for name in drawn["heads"]:
            call_stage("head", name)
        call_stage("survey")
        call_stage("evaluate")
        for name in drawn["methods"]:
            call_stage("evaluate_tuned", name)
        call_stage("report")
        page = write_page("page.html").read_text(encoding="utf-8")
    metrics = json.loads((folder / "reports/metrics.json").read_text())
    numbers = list(leaves(metrics))
    assert numbers
    assert all(math.isfinite(number) and 0 <= number <= 100 for number in numbers)
    assert "</html>" in page
    counts = (folder / "reports/tables/counts.csv").read_text(encoding="utf-8")
    assert ("upper_bound" in counts) is bool(drawn["targets"]), "it is selected on the targets"


def leaves(value: Any) -> list[float]:
    """The numbers in a JSON value."""
    if isinstance(value, dict):
        return [number for part in value.values() for number in leaves(part)]
    return [value] if isinstance(value, int | float) else []


PLAIN: dict[str, Any] = {
    "seeds": [1, 2],
    "targets": TARGETS,
    "soups": {"word": {"kind": "chains", "pool": "words", "k0": 2, "k1": 12, "patience": 6, "m": 2, "max_words": 1}},
    "methods": {"diverse": {"tune": PROMPT, "loss": DIVERSE, "soup": "word", **RATES}},
    "heads": {},
    "report_soup": "word",
    "report_method": None,
    "mode": "centroid",
    "m": [1, 2],
    "baseline_m": 2,
    "offsets": [0],
}
"""Chains of one of two words: the members of a seed may be equal, and another seed's not."""


def of_one(**changes: Any) -> dict[str, Any]:
    """One of everything."""
    one = {"kind": "chains", "pool": "words", "k0": 1, "k1": 1, "patience": 1, "m": 1, "max_words": 1}
    return {**PLAIN, "seeds": [1], "targets": (), "soups": {"word": one}, "methods": {}, **changes}


CASES = {
    "equal members with one seed alone": PLAIN,
    "one of everything": of_one(),
    "the offset trick at one offset": {**PLAIN, "targets": (), "offsets": [5]},
    "one of everything, and a method": of_one(methods=PLAIN["methods"], report_method="diverse"),
    "one of everything, and a head": of_one(heads={"h": {"kind": "both", "soup": "word"}}),
}


@pytest.mark.parametrize("drawn", CASES.values(), ids=CASES)
def test_a_small_run_ends_with_its_report(world, tmp_path, drawn):
    run_and_check(world, tmp_path / "run", drawn)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(drawn=small_params())
def test_any_small_run_ends_with_its_report(world, tmp_path_factory, drawn):
    run_and_check(world, tmp_path_factory.mktemp("drawn") / "run", drawn)
