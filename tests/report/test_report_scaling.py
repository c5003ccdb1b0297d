"""The table of model scaling: rows of several encoders from git, beside the paper's, with marks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from report_made import CLASS_NAME, both_seeds, results
from repository import commit, git, new_repository

from wsoup.base.errors import MissingError, ParamsError
from wsoup.report import sweep
from wsoup.report.accuracy import zero_shot_table
from wsoup.report.tables import page_tables

ENCODERS = {
    "small": {"model": "ViT-B-32", "pretrained": "openai", "quick_gelu": True},
    "large": {"model": "ViT-L-14", "pretrained": "laion2b_s32b_b82k", "quick_gelu": False},
    "other": {"model": "tiny", "pretrained": "weights/tiny.safetensors", "quick_gelu": False},
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    """Zero-shot tables of three encoders, each a revision."""
    folder = tmp_path_factory.mktemp("scaling")
    new_repository(folder)
    lines = both_seeds("class_name", CLASS_NAME) + both_seeds("random_chains", CLASS_NAME)
    lines += both_seeds("word_soup", CLASS_NAME, mode="score_mean", m=8, texts=8.0)
    for name, encoder in ENCODERS.items():
        zero_shot_table(results(lines, encoder=encoder)).write(folder / "reports/tables")
        asked = {key: value for key, value in encoder.items() if key != "quick_gelu"}
        (folder / "params.yaml").write_text(yaml.safe_dump({"encoder": asked}))
        commit(folder, name)
        git(folder, "tag", name)
    return folder


def test_rows_are_the_papers_in_its_order(repository):
    table = sweep.scaling_table(["other", "large", "small"], root=repository)
    assert [(row["model"], row["method"]) for row in table.rows] == [
        *(("Open-AI CLIP ViT-B/32", "ZS"), ("Open-AI CLIP ViT-B/32", "Word soup")),
        *(("Open CLIP ViT-L/14", "ZS"), ("Open CLIP ViT-L/14", "Word soup")),
        *(("tiny / tiny.safetensors", "ZS"), ("tiny / tiny.safetensors", "Word soup")),
    ]
    small, _, large = table.rows[:3]
    assert (small["imagenet"], small["imagenet (paper)"], small["imagenet (diff)"]) == (60, 61.9, -1.9)
    assert large["imagenet (paper)"] != 61.9
    assert "imagenet (mark)" not in small
    assert "| Open-AI CLIP ViT-B/32 | ZS | 1 | 60.00 (61.9, -1.90) |" in table.as_markdown()


def test_a_mark_names_its_encoder(repository):
    table = sweep.scaling_table(["small", "other"], root=repository)
    assert table.rows[2]["imagenet (mark)"] == "*"
    assert any(note.startswith("tiny / tiny.safetensors: * not comparable") for note in table.notes)


def test_the_table_is_saved_for_the_page(repository, tmp_path):
    table = sweep.scaling_table(["small"], root=repository)
    assert sweep.saved_scaling(tmp_path) == []
    assert sweep.write_scaling(table, folder=tmp_path).read_text() == table.as_markdown()
    (read,) = sweep.saved_scaling(tmp_path)
    assert read.as_markdown() == table.as_markdown()
    (shown,) = page_tables([read], source="imagenet")
    assert [column for column, *_ in shown["columns"]][:5] == ["model", "method", "m", "imagenet", "XD mean"]
    assert [cell["text"] for cell in shown["rows"][0]["cells"]][:2] == ["Open-AI CLIP ViT-B/32", "ZS"]


def test_encoders_by_tag_or_by_file(tmp_path):
    assert sweep.encoder_of("ViT-B-32/openai") == {"model": "ViT-B-32", "pretrained": "openai"}
    file = tmp_path / "tiny.yaml"
    file.write_text("{model: tiny, pretrained: /w/tiny.safetensors, config: /w/tiny.json}")
    encoder = sweep.encoder_of(str(file))
    assert encoder["config"] == "/w/tiny.json"
    assert sweep.experiment_name(encoder) == "scaling-tiny"
    assert sweep.experiment_name(sweep.encoder_of("ViT-B-32/openai")) == "scaling-ViT-B-32-openai"
    with pytest.raises(ParamsError, match="must be MODEL/TAG, such as ViT-B-32/openai"):
        sweep.encoder_of("ViT-B-32")
    with pytest.raises(MissingError, match="does not exist"):
        sweep.encoder_of(str(tmp_path / "no.yaml"))


def test_without_experiments_the_next_step_is_named(tmp_path):
    with pytest.raises(MissingError, match="add --run, or name revisions"):
        sweep.scaling_table(root=tmp_path)


@pytest.mark.slow
def test_a_second_call_runs_no_encoder_again(project, tiny_encoder_files, tmp_path):
    """`wsoup sweep model_scaling --run` on two tiny encoders: a DVC experiment each, and one table."""
    other = project.copy(tmp_path / "project")
    options = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        weights, config = folder / f"{name}.safetensors", folder / "tiny-clip.json"
        shutil.copy(tiny_encoder_files["pretrained"], weights)
        shutil.copy(tiny_encoder_files["config"], config)
        file = tmp_path / f"{name}.yaml"
        encoder = {"pretrained": str(weights), "watch": str(folder), "config": str(config)}
        file.write_text(yaml.safe_dump({"model": "tiny-clip", **encoder}))
        options += ["--encoder", str(file)]
    before = (other.folder / "params.yaml").read_bytes()
    printed = other.run("wsoup", "sweep", "model_scaling", "--run", *options)
    assert "Running stage 'evaluate'" in printed
    assert "Running stage 'finetune" not in printed
    table = json.loads((other.folder / "reports/model_scaling.json").read_text())
    assert {row["model"] for row in table["rows"]} == {
        f"tiny-clip / {name}.safetensors" for name in ("first", "second")
    }
    assert {row["method"] for row in table["rows"]} == {"ZS", "Waffle CLIP", "Desc. soup + offsets", "Word soup"}
    assert all(isinstance(row["photo"], float) for row in table["rows"])
    assert (other.folder / "params.yaml").read_bytes() == before, "the workspace stays as it is"
    printed = other.run("wsoup", "sweep", "model_scaling", "--run", *options)
    assert "Running stage" not in printed
    assert "scaling-tiny-clip-first has been run: `dvc exp remove scaling-tiny-clip-first` to run it again" in printed
    assert "Zero-shot accuracy by encoder" in other.run("wsoup", "report") + (
        other.folder / "reports/index.html"
    ).read_text(encoding="utf-8")
