"""Base-to-new: half of a dataset's classes is the source, the other half a target; run by DVC for real."""

from __future__ import annotations

import csv
import json

import pytest
import yaml
from project import Project, miniature_params

from wsoup.disk import store


@pytest.fixture(scope="module")
def halved(tmp_path_factory, tiny_encoder_files) -> Project:
    """The miniature project with halves of photo's classes and no finetuning, after `dvc repro`, committed."""
    project = Project(tmp_path_factory.mktemp("halved"), encoder=tiny_encoder_files)
    params = miniature_params(tiny_encoder_files)
    photo = params["datasets"]["photo"]
    params["source"] = "photo_base"
    params["datasets"] = {
        "photo_base": {**photo, "classes": "base"},
        "photo_new": {**photo, "role": "xd", "classes": "new"},
    }
    params["finetune"]["methods"] = {}
    params["evaluate"]["ensemble"] = False
    project.write_params(params)
    project.repro()
    project.commit("first run")
    return project


def test_selection_sees_only_images_and_names_of_the_base_half(halved):
    manifests = {half: halved.folder / f"artifacts/manifests/photo_{half}.parquet" for half in ("base", "new")}
    names = {half: store.table_attributes(path)["class_names"] for half, path in manifests.items()}
    assert names == {"base": ["blue", "green"], "new": ["red", "white"]}
    rows = {half: store.read_table(path).to_pylist() for half, path in manifests.items()}
    assert {row["class_name"] for row in rows["base"] if row["split"] == "train"} == {"blue", "green"}
    assert {row["split"] for row in rows["new"]} == {"test"}


def test_table_and_metrics_follow_from_the_counts(halved):
    reports = halved.folder / "reports"
    with open(reports / "tables/counts.csv", newline="") as file:
        counts = {
            (line["variant"], line["row"], line["dataset"], line["seed"]): 100 * int(line["n_correct"])
            / int(line["n_images"])
            for line in csv.DictReader(file)
        }  # fmt: skip
    metrics = json.loads((reports / "metrics.json").read_text())["pretrained"]
    for row in ("class_name", "waffle", "word_soup"):
        by_seed = []
        for seed in "12":
            base, new = (counts["pretrained", row, f"photo_{half}", seed] for half in ("base", "new"))
            by_seed.append(2 * base * new / (base + new) if base + new else 0.0)
        assert metrics[row]["harmonic_mean"] == pytest.approx(sum(by_seed) / 2, abs=1e-3)
    with open(reports / "tables/base_to_new.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    first = metrics["class_name"]
    assert [float(lines[0][name]) for name in ("base", "new", "H")] == pytest.approx(
        [first["source"], first["xd_mean"], first["harmonic_mean"]], abs=1e-3
    )


def test_the_harmonic_mean_is_on_the_terminal_and_the_page(halved):
    assert halved.run("wsoup", "results").splitlines()[0].split()[-1] == "H"
    halved.run("wsoup", "report")
    page = (halved.folder / "reports/index.html").read_text(encoding="utf-8")
    assert "Base to new classes" in page
    assert page.count("harmonic mean</span>") >= 2  # class name and soup, and the templates where they are evaluated


def test_a_sweep_over_sources_shows_and_draws_the_harmonic_mean(halved):
    printed = halved.run("wsoup", "sweep", "source", "--row", "class_name", "--row", "word_soup",
                         "--figure", "sources.svg", "HEAD", COLUMNS="200")  # fmt: skip
    assert "2 rows against source" in printed
    assert "harmonic_mean" in printed
    assert "harmonic mean" in (halved.folder / "sources.svg").read_text()
    assert "must end in .svg or .json" in halved.run("wsoup", "sweep", "source", "--figure", "a.html", good=False)


def test_a_run_on_all_classes_has_no_such_table(project):
    assert yaml.safe_load((project.folder / "params.yaml").read_text())["source"] == "photo"
    assert not (project.folder / "reports/tables/base_to_new.csv").exists()
    assert "harmonic" not in (project.folder / "reports/metrics.json").read_text()
