"""The table of model scaling: rows of several encoders from git, beside the paper's, with their marks."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from report_made import CLASS_NAME, both_seeds, results
from repository import commit, git, new_repository

from wsoup.core.errors import MissingError, ParamsError
from wsoup.report import scaling
from wsoup.report.accuracy import zero_shot_table
from wsoup.report.shown import shown_tables

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


def test_rows_are_the_papers_in_its_order_with_its_figures(repository):
    table = scaling.scaling_table(["other", "large", "small"], root=repository)
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


def test_a_mark_says_whose_it_is(repository):
    table = scaling.scaling_table(["small", "other"], root=repository)
    assert table.rows[2]["imagenet (mark)"] == "*"
    assert any(note.startswith("tiny / tiny.safetensors: * not comparable") for note in table.notes)


def test_it_is_kept_for_the_page(repository, tmp_path):
    table = scaling.scaling_table(["small"], root=repository)
    assert scaling.saved(tmp_path) == []
    assert scaling.write(table, folder=tmp_path).read_text() == table.as_markdown()
    (read,) = scaling.saved(tmp_path)
    assert read.as_markdown() == table.as_markdown()
    (shown,) = shown_tables([read], source="imagenet")
    assert [column for column, *_ in shown["columns"]][:5] == ["model", "method", "m", "imagenet", "XD mean"]
    assert [cell["text"] for cell in shown["rows"][0]["cells"]][:2] == ["Open-AI CLIP ViT-B/32", "ZS"]


def test_encoders_by_tag_or_by_file(tmp_path):
    assert scaling.encoder_of("ViT-B-32/openai") == {"model": "ViT-B-32", "pretrained": "openai"}
    file = tmp_path / "tiny.yaml"
    file.write_text("{model: tiny, pretrained: /w/tiny.safetensors, config: /w/tiny.json}")
    encoder = scaling.encoder_of(str(file))
    assert encoder["config"] == "/w/tiny.json"
    assert scaling.name_of(encoder) == "scaling-tiny"
    assert scaling.name_of(scaling.encoder_of("ViT-B-32/openai")) == "scaling-ViT-B-32-openai"
    with pytest.raises(ParamsError, match="must be MODEL/TAG, such as ViT-B-32/openai"):
        scaling.encoder_of("ViT-B-32")
    with pytest.raises(MissingError, match="does not exist"):
        scaling.encoder_of(str(tmp_path / "no.yaml"))


def test_without_experiments_the_next_step_is_named(tmp_path):
    with pytest.raises(MissingError, match="add --run, or name revisions"):
        scaling.scaling_table(root=tmp_path)
