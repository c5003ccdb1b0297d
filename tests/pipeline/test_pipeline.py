"""The pipeline, run by DVC for real on a miniature: which stages run, and that the results have the same bytes."""

from __future__ import annotations

import json

import yaml
from project import Project

from wsoup.disk import store


def test_nothing_runs_again_when_nothing_changed(project):
    assert project.repro() == set()


def test_a_word_soup_param_runs_the_word_soup_and_the_stages_behind_it(project):
    before = project.outs()
    project.edit("soups.word", k0=8, patience=9)
    ran = project.repro()
    tuned = {"finetune@coop_diverse", "evaluate_tuned@ce", "evaluate_tuned@coop_diverse"}
    assert ran == {"evaluated", "soup@word", "head@both", "evaluate", "report", *tuned}
    assert before["artifacts/soups/word"] != project.outs()["artifacts/soups/word"]
    project.git("checkout", "-q", "--", ".")
    assert project.repro() == set() or project.outs() == before  # back to the first results, from the run cache


def test_an_experiment_runs_with_a_param_set_on_the_command_line(project):
    project.run("dvc", "exp", "run", "-S", "soups.word.k0=6", "soup@word")
    assert yaml.safe_load((project.folder / "params.yaml").read_text())["soups"]["word"]["k0"] == 6
    project.git("checkout", "-q", "--", ".")
    project.repro()


def test_two_runs_from_scratch_end_in_the_same_bytes(project, tmp_path, tiny_encoder_files):
    again = Project(tmp_path / "again", encoder=tiny_encoder_files)
    again.repro()
    assert again.outs() == project.outs()


def test_a_source_without_targets_gets_its_answer(project, tmp_path):
    """A folder of photos of one's own, say: the upper bound, which targets select, has no row."""
    alone = project.copy(tmp_path / "alone")
    params = yaml.safe_load((alone.folder / "params.yaml").read_text())
    params["datasets"] = {"photo": params["datasets"]["photo"]}
    alone.write_params(params)
    alone.repro()
    assert alone.run("wsoup", "results").startswith("Test images of the source. ")
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
