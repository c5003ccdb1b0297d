"""The pipeline, run by DVC for real on a miniature: which stages run, and that the results have the same bytes."""

from __future__ import annotations

import json

import pytest
import torch
from project import PLANE, SOFT, Project
from yaml_in_c import safe_load

from wsoup.core.prompts import prompt
from wsoup.disk import store
from wsoup.finetune.tuned import load_tuned
from wsoup.towers.features import read_features


def test_nothing_runs_again_when_nothing_changed(project):
    assert project.repro() == set()


@pytest.mark.long
def test_a_word_soup_param_runs_the_word_soup_and_the_stages_behind_it(project):
    before = project.outs()
    project.edit("soups.word", k0=8, patience=9)
    ran = project.repro()
    tuned = {"finetune@coop_diverse", "evaluate_tuned@ce", "evaluate_tuned@coop_diverse"}
    assert ran == {"code", "evaluated", "soup@word", "head@ridge", "evaluate", "report", *tuned}
    assert before["artifacts/soups/word"] != project.outs()["artifacts/soups/word"]
    project.git("checkout", "-q", "--", ".")
    assert project.repro() == set() or project.outs() == before  # back to the first results, from the run cache


@pytest.mark.long
def test_a_landscape_is_one_more_stage_and_two_more_figures(project, tiny_encoder):
    """Three by three points, corners included, and the lines; without `landscape.methods` there is no such stage."""
    before = project.outs()
    project.edit("finetune.methods", soft=SOFT)
    project.edit("landscape", **PLANE)
    assert project.repro() == {"code", "finetune@soft", "evaluate_tuned@soft", "landscape@soft", "report"}
    rows = json.loads((project.folder / "reports/plots/landscape.json").read_text())
    assert {(row["x"], row["y"]) for row in rows} == {(x / 2, y / 2) for x in range(3) for y in range(3)}
    assert {row["mean"] for row in rows} == {"training images", "mean of the targets"}
    lines = json.loads((project.folder / "reports/plots/landscape_lines.json").read_text())
    assert {row["place"] for row in lines} == {-0.5, 0, 0.5, 1, 1.5}
    the_first_corner_is_the_tuned_model(project, tiny_encoder)
    assert "reports/plots/landscape.json" in project.run("dvc", "plots", "diff", "--json")
    assert "DVC failed" not in project.run("dvc", "plots", "show", "-o", "shown")
    project.git("checkout", "-q", "--", ".")
    made = ("artifacts/finetuned/soft", "artifacts/results/soft.parquet", "artifacts/results/landscape")
    project.git("clean", "-fdqx", *made, "reports", "shown")  # dvc.lock as committed does not name them
    project.repro()
    assert project.outs() == before
    assert (project.folder / "reports/plots/landscape.json").read_text() == "[]\n"


def the_first_corner_is_the_tuned_model(project, encoder):
    """Counted here from the files, on the cross-dataset target: the first seed's model with its own descriptor."""
    artifacts = project.folder / "artifacts"
    (row,) = [
        row
        for row in store.read_table(artifacts / "results/landscape/soft.parquet").to_pylist()
        if (row["dataset"], row["x"], row["y"]) == ("other", 0, 0)
    ]
    images = read_features(artifacts / "embeddings/pretrained/other-test.zarr")
    tuned = load_tuned(artifacts / "finetuned/soft/seed1", encoder=encoder)
    classes = tuned.encode_texts([prompt(images.attributes["template"], name, "") for name in images.class_names])
    predicted = (torch.from_numpy(images.features) @ classes.T).argmax(dim=1)
    n_correct = int((predicted == torch.from_numpy(images.labels)).sum())
    assert (row["n_correct"], row["n_images"], row["seed"]) == (n_correct, len(images.labels), 1)


def test_an_experiment_runs_with_a_param_set_on_the_command_line(project):
    project.run("dvc", "exp", "run", "--name", "six", "-S", "soups.word.k0=6", "soup@word")
    assert safe_load((project.folder / "params.yaml").read_text())["soups"]["word"]["k0"] == 6
    project.git("checkout", "-q", "--", ".")
    project.repro()


@pytest.mark.long
def test_two_runs_from_scratch_end_in_the_same_bytes(project, tmp_path, tiny_encoder_files):
    again = Project(tmp_path / "again", encoder=tiny_encoder_files)
    again.repro()
    assert again.outs() == project.outs()


@pytest.mark.long
def test_a_source_without_targets_gets_its_answer(project, tmp_path):
    """A folder of photos of one's own, say: the upper bound, which targets select, has no row."""
    alone = project.copy(tmp_path / "alone")
    params = safe_load((alone.folder / "params.yaml").read_text())
    params["datasets"] = {"photo": params["datasets"]["photo"]}
    alone.write_params(params)
    alone.repro()
    assert "\nSource. " in alone.run("wsoup", "results")
    table = store.read_table(alone.folder / "artifacts/results/pretrained/results.parquet")
    methods = set(table["method"].to_pylist())
    assert "word_soup" in methods
    assert "upper_bound" not in methods


def test_bad_params_stop_with_one_line_and_lose_nothing(project):
    """DVC removes a stage's outs before it runs; they come back from its cache, and nothing runs again."""
    before = project.outs()
    earlier = (project.folder / "artifacts/soups/word/seed1.json").read_bytes()
    project.edit("soups.word", k0=50)
    printed = project.run("dvc", "repro", good=False)
    assert "soups.word: k0 (50) must not exceed k1 (12)" in printed
    assert "Traceback" not in printed
    assert project.outs() == before
    project.git("checkout", "-q", "--", ".")
    assert project.repro() == set()
    assert (project.folder / "artifacts/soups/word/seed1.json").read_bytes() == earlier


def test_the_command_line_shows_a_soup(project):
    printed = project.run("wsoup", "soup", "show", "artifacts/soups/word/seed1.json")
    soup = json.loads((project.folder / "artifacts/soups/word/seed1.json").read_text())
    assert "chains soup, seed 1, 2 members" in printed
    assert soup["members"][0]["trace"][0]["added"] in printed
    assert "no soup 'word-seed9'" in project.run("wsoup", "soup", "show", "word-seed9", good=False)
