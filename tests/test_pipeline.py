"""The pipeline, run by DVC for real on a miniature: what runs, what does not, and that it ends in the same bytes."""

from __future__ import annotations

import json

import yaml
from project import Project


def test_metrics_are_per_cent_and_per_method(project):
    metrics = json.loads((project.folder / "reports/metrics.json").read_text())
    flat = json.dumps(metrics)
    for key in ("source", "xd_mean", "dg_mean"):
        assert key in flat


def test_nothing_runs_again_when_nothing_changed(project):
    assert project.repro() == set()


def test_a_word_soup_param_runs_the_word_soup_and_what_follows_from_it(project):
    before = project.outs()
    project.edit("word_soup", k0=8, patience=9)
    ran = project.repro()
    assert ran == {
        "word_soup",
        "finetune@coop_diverse",
        "evaluate",
        "evaluate_tuned@ce",
        "evaluate_tuned@coop_diverse",
        "report",
    }
    assert before["artifacts/soups/word"] != project.outs()["artifacts/soups/word"]
    changed = json.loads(project.run("dvc", "metrics", "diff", "--json"))
    assert changed
    project.run("dvc", "plots", "diff", "-o", "diffed")
    assert (project.folder / "diffed" / "index.html").is_file()
    project.git("checkout", "-q", "--", ".")
    assert project.repro() == set() or project.outs() == before  # back again: from the run cache


def test_an_experiment_runs_with_a_param_set_on_the_command_line(project):
    project.run("dvc", "exp", "run", "-S", "word_soup.k0=6", "word_soup")
    assert yaml.safe_load((project.folder / "params.yaml").read_text())["word_soup"]["k0"] == 6
    project.git("checkout", "-q", "--", ".")
    project.repro()


def test_two_runs_from_scratch_end_in_the_same_bytes(project, tmp_path, tiny_encoder_files):
    again = Project(tmp_path / "again", encoder=tiny_encoder_files)
    again.repro()
    assert again.outs() == project.outs()


def test_bad_params_stop_in_one_line_and_nothing_is_lost(project):
    """DVC removes a stage's outs before it runs: what was there comes back from its cache, and nothing runs again."""
    before = project.outs()
    earlier = (project.folder / "artifacts/soups/word/seed1.json").read_bytes()
    project.edit("word_soup", k0=50)
    printed = project.run("dvc", "repro", good=False)
    assert "word_soup: k0 (50) must not exceed k1 (12)" in printed
    assert "Traceback" not in printed
    assert project.outs() == before
    project.git("checkout", "-q", "--", ".")
    assert project.repro() == set()
    assert (project.folder / "artifacts/soups/word/seed1.json").read_bytes() == earlier


def test_the_command_line_shows_a_soup(project):
    printed = project.run("wsoup", "soup", "show", "artifacts/soups/word/seed1.json")
    soup = json.loads((project.folder / "artifacts/soups/word/seed1.json").read_text())
    assert "word soup, seed 1, 2 members" in printed
    assert soup["members"][0]["trace"][0]["added"] in printed
    assert project.run("wsoup", "soup", "show", "word-seed1", "--text").split("\n")[0] == soup["members"][0]["text"]
    assert "no soup 'word-seed9'" in project.run("wsoup", "soup", "show", "word-seed9", good=False)
