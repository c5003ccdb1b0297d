"""`wsoup sweep model_scaling --run` on two tiny encoders: an experiment each, through DVC, and one table."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml


@pytest.mark.slow
def test_two_encoders_fill_the_table_and_the_second_call_runs_nothing(project, tiny_encoder_files, tmp_path):
    other = project.copy(tmp_path / "project")
    asked = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        weights, config = folder / f"{name}.safetensors", folder / "tiny-clip.json"
        shutil.copy(tiny_encoder_files["pretrained"], weights)
        shutil.copy(tiny_encoder_files["config"], config)
        file = tmp_path / f"{name}.yaml"
        encoder = {"pretrained": str(weights), "watch": str(folder), "config": str(config)}
        file.write_text(yaml.safe_dump({"model": "tiny-clip", **encoder}))
        asked += ["--encoder", str(file)]
    before = (other.folder / "params.yaml").read_bytes()
    printed = other.run("wsoup", "sweep", "model_scaling", "--run", *asked)
    assert "Running stage 'evaluate'" in printed
    assert "Running stage 'finetune" not in printed
    table = json.loads((other.folder / "reports/model_scaling.json").read_text())
    assert {row["model"] for row in table["rows"]} == {
        f"tiny-clip / {name}.safetensors" for name in ("first", "second")
    }
    assert {row["method"] for row in table["rows"]} == {"ZS", "Waffle CLIP", "Desc. soup + offsets", "Word soup"}
    assert all(isinstance(row["photo"], float) for row in table["rows"])
    assert (other.folder / "params.yaml").read_bytes() == before, "the workspace stays as it is"
    printed = other.run("wsoup", "sweep", "model_scaling", "--run", *asked)
    assert "Running stage" not in printed
    assert "scaling-tiny-clip-first has been run: `dvc exp remove scaling-tiny-clip-first` to run it again" in printed
    assert "Zero-shot accuracy by encoder" in other.run("wsoup", "report") + (
        other.folder / "reports/index.html"
    ).read_text(encoding="utf-8")
