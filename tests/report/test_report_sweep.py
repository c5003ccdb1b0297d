"""Rows of several revisions against one param: the table, its averages by hand, and the figure."""

from __future__ import annotations

import json

import pytest
import vl_convert
import yaml
from repository import commit, git, new_repository
from run_cli import run

from wsoup.base.errors import ParamsError
from wsoup.report.sweep import figure, points, sweep, write_figure


def entry(source: float, xd: float, **further: float) -> dict[str, float]:
    means = {"source": source, "source_std": 0.5, "xd_mean": xd, "xd_std": 0.25, **further}
    return {name: float(value) for name, value in means.items()}


REVISIONS = {
    "four": ({"fewshot": {"shots": 4}}, {"class_name": entry(40, 30), "word_soup": entry(50, 31)}),
    "sixteen": ({"fewshot": {"shots": 16}}, {"class_name": entry(40, 30), "word_soup": entry(60, 32)}),
    "small": ({"rate": 2e-5, "source": "dtd_base"}, {"word_soup": entry(60, 30, harmonic_mean=40, harmonic_std=1)}),
    "large": ({"rate": 0.5, "source": "pets_base"}, {"word_soup": entry(80, 80, harmonic_mean=80, harmonic_std=2)}),
    "again": ({"rate": None, "source": "pets_base"}, {"word_soup": entry(90, 90, harmonic_mean=90, harmonic_std=2)}),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    new_repository(folder)
    (folder / "reports").mkdir()
    for name, (params, rows) in REVISIONS.items():
        metrics = {"pretrained": rows, "coop": {"class_name": entry(70, 20)}}
        (folder / "params.yaml").write_text(yaml.safe_dump(params))
        (folder / "reports/metrics.json").write_text(json.dumps(metrics))
        commit(folder, name)
        git(folder, "tag", name)
    return folder


def test_a_single_row_has_no_row_column(repository):
    table = sweep("fewshot.shots", rows=["word_soup"], revisions=["sixteen", "four"], root=repository)
    assert table.title == "pretrained word_soup against fewshot.shots"
    assert list(table.columns) == [
        *("fewshot.shots", "revision", "source", "source (std)", "xd_mean", "xd_mean (std)", "dg_mean", "dg_mean (std)")
    ]
    assert "| 4 | four | 50.00 ± 0.50 | 31.00 ± 0.25 |  |\n| 16 | sixteen | 60.00" in table.as_markdown()


def test_several_rows_have_a_row_column_and_may_name_a_variant(repository):
    rows = ["class_name", "word_soup", "coop/class_name"]
    table = sweep("fewshot.shots", rows=rows, revisions=["sixteen", "four"], root=repository)
    assert table.title == "3 rows against fewshot.shots"
    assert [(row["fewshot.shots"], row["row"], row["source"]) for row in table.rows] == [
        *((4, "class_name", 40), (4, "word_soup", 50), (4, "coop/class_name", 70)),
        *((16, "class_name", 40), (16, "word_soup", 60), (16, "coop/class_name", 70)),
    ]
    assert "| 4 | coop/class_name | four | 70.00" in table.as_markdown()
    by_option = sweep("fewshot.shots", rows=["class_name"], variant="coop", revisions=["four"], root=repository)
    assert by_option.rows[0]["source"] == 70


def test_numbers_are_sorted_before_text_and_small_ones_are_readable(repository):
    table = sweep("rate", rows=["word_soup"], revisions=["again", "large", "small"], root=repository)
    assert [row["rate"] for row in table.rows] == ["2e-05", "0.5", "null"]


def test_sources_of_base_to_new_runs_have_an_average(repository):
    table = sweep("source", rows=["word_soup"], revisions=["small", "large", "again"], root=repository)
    assert [row["source dataset"] for row in table.rows] == ["dtd_base", "pets_base", "pets_base", "average of 2"]
    last = table.rows[-1]  # two runs of pets_base count as one source: (60 + (80 + 90) / 2) / 2
    assert (last["source"], last["xd_mean"], last["harmonic_mean"]) == (72.5, 57.5, 62.5)
    assert "| dtd_base | small | 60.00 ± 0.50 | 30.00 ± 0.25 | 40.00 ± 1.00 |" in table.as_markdown()
    assert "not the harmonic mean of the other averages" in table.notes[-1]


def test_one_source_or_another_param_has_no_average(repository):
    for param, revisions in (("source", ["large", "again"]), ("rate", ["small", "large"])):
        table = sweep(param, rows=["word_soup"], revisions=revisions, root=repository)
        assert len(table.rows) == 2
        assert len(table.notes) == 1
        assert "`wsoup compare` says what is more than noise" in table.notes[0]


def test_points_have_no_duplicates(repository):
    revisions = ["four", "sixteen", "sixteen~0"]  # duplicates, as the workspace often is one of the experiments
    shown = points(sweep("fewshot.shots", rows=["word_soup"], revisions=revisions, root=repository))
    assert [(p["value"], p["mean"], p["accuracy"], p["std"]) for p in shown] == [
        *((4, "source", 50, 0.5), (4, "XD mean", 31, 0.25), (16, "source", 60, 0.5), (16, "XD mean", 32, 0.25))
    ]
    sources = points(sweep("source", rows=["word_soup"], revisions=["small", "large"], root=repository))
    assert {p["value"] for p in sources} == {"dtd_base", "pets_base"}  # not the average


def test_without_revisions_each_finished_experiment_is_listed_once(repository, tmp_path):
    folder = tmp_path / "copy"
    git(tmp_path, "clone", "-q", str(repository), str(folder))
    git(folder, "checkout", "-q", "sixteen")  # the workspace equals the latest experiment
    empty = git(folder, "hash-object", "-t", "tree", "-w", "/dev/null").strip()
    nobody = ("-c", "user.name=x", "-c", "user.email=x@y")
    bare = git(folder, *nobody, "commit-tree", "-m", "stopped early", empty).strip()
    for name, at in (("small-one", "four"), ("last-one", "sixteen"), ("the-same-again", "sixteen"), ("bare", bare)):
        git(folder, "update-ref", f"refs/exps/ab/cdef/{name}", at)
    table = sweep("fewshot.shots", rows=["word_soup"], root=folder)
    assert [(row["fewshot.shots"], row["revision"]) for row in table.rows] == [(4, "small-one"), (16, "last-one")]


def test_numbers_are_joined_by_lines_and_names_are_side_by_side(repository):
    table = sweep("fewshot.shots", rows=["class_name", "word_soup"], revisions=["four", "sixteen"], root=repository)
    drawn = figure(points(table), param="fewshot.shots")
    assert drawn["spec"]["encoding"]["x"]["type"] == "quantitative"
    assert drawn["spec"]["encoding"]["x"]["title"] == "fewshot.shots"
    assert vl_convert.vegalite_to_svg(drawn).count("mark-line") > 0
    table = sweep("source", rows=["word_soup"], revisions=["small", "large"], root=repository)
    drawn = figure(points(table), param="source")
    assert drawn["spec"]["encoding"]["x"]["type"] == "nominal"
    svg = vl_convert.vegalite_to_svg(drawn)
    assert "mark-line" not in svg
    assert "harmonic mean" in svg
    assert "dtd_base" in svg


def test_a_figure_is_an_svg_or_its_specification(repository, tmp_path):
    table = sweep("fewshot.shots", rows=["word_soup"], revisions=["four", "sixteen"], root=repository)
    write_figure(tmp_path / "shots.svg", table=table, param="fewshot.shots")
    assert (tmp_path / "shots.svg").read_text().startswith("<svg")
    write_figure(tmp_path / "shots.json", table=table, param="fewshot.shots")
    assert json.loads((tmp_path / "shots.json").read_text())["data"]["values"] == points(table)
    code, _, error = run("sweep", "fewshot.shots", "--figure", "shots.html")
    assert code == 1
    assert "--figure shots.html must end in .svg or .json" in error


def test_a_row_missing_from_all_revisions_is_named(repository):
    with pytest.raises(ParamsError, match=r"no revision has both the param 'x.y' and the row pretrained/word_soup"):
        sweep("x.y", rows=["word_soup"], revisions=["four"], root=repository)
    with pytest.raises(ParamsError, match=r"'fewshot.shots' and the row pretrained/waffle in reports/metrics.json"):
        sweep("fewshot.shots", rows=["word_soup", "waffle"], revisions=["four"], root=repository)
