"""Stage prepare as DVC runs it: quick to start; one line and exit code 1 for an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from miniature import build_coop
from project import ROOT

from wsoup.disk import store
from wsoup.pipeline.profiles.paper import Paper


def prepare(folder: Path, dataset: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "stages"), "prepare", dataset]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("world")
    build_coop(root / "data")
    raw = yaml.safe_load(Paper("data").text())
    raw["fewshot"] = {"shots": 2}
    (root / "params.yaml").write_text(yaml.safe_dump(raw))
    return root


def test_a_manifest_is_written(world: Path) -> None:
    done = prepare(world, "dtd")
    assert (done.returncode, done.stderr) == (0, "")
    path = world / "artifacts/manifests/dtd.parquet"
    assert store.read_table(path).num_rows == 6
    assert store.table_attributes(path)["split_source"] == "data/dtd/split_zhou_DescribableTextures.json"


def test_an_error_is_one_line_and_keeps_the_earlier_manifest(world: Path) -> None:
    assert prepare(world, "eurosat").returncode == 0
    path = world / "artifacts/manifests/eurosat.parquet"
    before = path.read_bytes()
    (world / "data/eurosat/split_zhou_EuroSAT.json").unlink()
    done = prepare(world, "eurosat")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "error: data/eurosat/split_zhou_EuroSAT.json does not exist; put EuroSAT's split file"
    )
    assert done.stderr.count("\n") == 1
    assert path.read_bytes() == before


def test_an_unknown_dataset_is_refused(world: Path) -> None:
    done = prepare(world, "cub")
    assert done.returncode == 1
    assert done.stderr.startswith("error: datasets has no 'cub'; there are caltech101, dtd")


def test_stages_without_a_model_need_no_torch() -> None:
    names = ("prepare", "fewshot", "candidates", "evaluated", "report")
    code = f"import sys, {', '.join(f'stages.{name}' for name in names)}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
