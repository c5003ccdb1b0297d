"""Stage prepare as DVC runs it: quick to start; one line and exit code 1 for an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from miniature import build_coop
from processes import run_module
from project import ROOT
from yaml_in_c import safe_load

from wsoup.disk import store
from wsoup.pipeline.profiles.paper import Paper


def prepare(folder: Path, dataset: str) -> tuple[int | None, str]:
    """Exit code and what is printed to stderr."""
    return run_module("stages", "prepare", dataset, folder=folder, out=os.devnull)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("world")
    build_coop(root / "data")
    raw = safe_load(Paper("data").text())
    raw["fewshot"] = {"shots": 2}
    (root / "params.yaml").write_text(yaml.safe_dump(raw))
    return root


def test_a_manifest_is_written(world: Path) -> None:
    assert prepare(world, "dtd") == (0, "")
    path = world / "artifacts/manifests/dtd.parquet"
    assert store.read_table(path).num_rows == 6
    assert store.table_attributes(path)["split_source"] == "data/dtd/split_zhou_DescribableTextures.json"


def test_an_error_is_one_line_and_keeps_the_earlier_manifest(world: Path) -> None:
    assert prepare(world, "eurosat")[0] == 0
    path = world / "artifacts/manifests/eurosat.parquet"
    before = path.read_bytes()
    (world / "data/eurosat/split_zhou_EuroSAT.json").unlink()
    code, errors = prepare(world, "eurosat")
    assert code == 1
    assert errors.startswith("error: data/eurosat/split_zhou_EuroSAT.json does not exist; put EuroSAT's split file")
    assert errors.count("\n") == 1
    assert path.read_bytes() == before


def test_an_unknown_dataset_is_refused(world: Path) -> None:
    code, errors = prepare(world, "cub")
    assert code == 1
    assert errors.startswith("error: datasets has no 'cub'; there are caltech101, dtd")


def test_stages_without_a_model_need_no_torch() -> None:
    names = ("prepare", "fewshot", "candidates", "evaluated", "report")
    code = f"import sys, {', '.join(f'stages.{name}' for name in names)}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
