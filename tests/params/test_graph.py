"""The graph of stages: what feeds what, by hand and as DVC itself reads dvc.yaml."""

from __future__ import annotations

import pytest
from project import ROOT
from yaml_in_c import safe_load

from wsoup.params.graph import CODE, Graph, Param, graph_of, is_fed, listed_below, read_graph

DVC_YAML = """
stages:
  prepare:
    foreach: ${datasets}
    do:
      cmd: python stages prepare
      params: ["datasets.${key}", {data/packages.yaml: [numpy]}, {artifacts/code.yaml: [prepare]}]
      deps: ["${item.watch}"]
      outs: ["manifests/${key}.parquet"]
  soup:
    foreach: ${soups}
    do:
      cmd: python stages soup
      params: [seeds, "soups.${key}", {artifacts/code.yaml: ["soup.${item.kind}"]}]
      deps: ["manifests/${source}.parquet"]
      outs: ["soups/${key}"]
  evaluate:
    cmd: python stages evaluate
    params: [evaluate.m]
    deps: [manifests, soups]
    outs: [results]
  report:
    cmd: ./mine
    params: [report]
    deps: [results]
    outs: [{reports/tables: {cache: false}}]
    metrics: [{reports/metrics.json: {cache: false}}]
"""
PARAMS = {
    "source": "photo",
    "seeds": [1],
    "datasets": {"photo": {"watch": "photos"}, "art": {"watch": "paintings"}},
    "soups": {"word": {"kind": "chains"}, "best": {"kind": "top"}},
}


@pytest.fixture
def graph() -> Graph:
    return graph_of(safe_load(DVC_YAML), params=PARAMS)


def test_stages_are_filled_in_from_params(graph):
    assert list(graph.stages) == ["prepare@photo", "prepare@art", "soup@word", "soup@best", "evaluate", "report"]
    soup = graph.stages["soup@word"]
    assert soup.params == (
        Param("params.yaml", "seeds"),
        Param("params.yaml", "soups.word"),
        Param(CODE, "soup.chains"),
    )
    assert (soup.deps, soup.outs) == (("manifests/photo.parquet",), ("soups/word",))
    assert (soup.own_keys, soup.code_key, soup.filled_in) == (["seeds", "soups.word"], "soup.chains", ("source",))
    art = graph.stages["prepare@art"]
    assert (art.deps, art.filled_in, art.is_own) == (("paintings",), ("datasets.art.watch",), True)
    report = graph.stages["report"]
    assert (report.outs, report.is_own) == (("reports/tables", "reports/metrics.json"), False)
    assert report.code_key is None


def test_upstream_of_a_file_are_the_stages_that_it_is_made_by_and_from(graph):
    assert [stage.name for stage in graph.upstream("soups/word")] == ["prepare@photo", "soup@word"]
    assert [stage.name for stage in graph.upstream("soups/word/seed1.json")] == ["prepare@photo", "soup@word"]
    behind_all = ["prepare@photo", "prepare@art", "soup@word", "soup@best", "evaluate"]
    assert [stage.name for stage in graph.upstream("results")] == behind_all
    assert graph.upstream("photos") == []


def test_the_keys_that_decide_a_file(graph):
    assert graph.deciding("soups/word") == ["datasets.photo", "seeds", "soups.word"]
    assert graph.deciding("soups/best", "manifests/art.parquet") == [
        "datasets.photo",
        "datasets.art",
        "seeds",
        "soups.best",
    ]


@pytest.mark.parametrize(
    ("key", "outs"),
    [
        ("soups.word.k0", ["soups/word", "results", "reports/tables", "reports/metrics.json"]),
        ("soups", ["soups/word", "soups/best", "results", "reports/tables", "reports/metrics.json"]),
        ("datasets.art.root", ["manifests/art.parquet", "results", "reports/tables", "reports/metrics.json"]),
        ("evaluate.m", ["results", "reports/tables", "reports/metrics.json"]),
        ("evaluate.n", []),
        ("seed", []),
    ],
)
def test_downstream_of_a_key_are_the_files_that_it_feeds(graph, key, outs):
    assert graph.downstream(key) == outs


def test_a_key_feeds_what_lies_in_it_and_what_it_lies_in():
    assert is_fed("soups.word.k0", by="soups.word")
    assert is_fed("soups", by="soups.word")
    assert not is_fed("soups.wordy", by="soups.word")


def test_a_key_that_params_may_lack_belongs_to_the_stage_of_its_sections_name():
    """dvc.yaml lists keys of `evaluate` one by one, and `report` as a whole; `none` is as if it were not there."""
    params = {**PARAMS, "evaluate": {"m": [1], "new": 2, "none": None}, "report": {"soup": "word"}, "soup": {"x": 1}}
    stages = graph_of(safe_load(DVC_YAML), params=params).stages
    assert {name: stage.optional for name, stage in stages.items() if stage.optional} == {"evaluate": ("evaluate.new",)}
    assert stages["evaluate"].own_keys == ["evaluate.m", "evaluate.new"]
    assert stages["evaluate"].params == (Param("params.yaml", "evaluate.m"),)


def test_the_keys_that_dvc_yaml_lists_one_by_one():
    """Of a key that is listed by item, its section; a section that stages are made for is listed, too."""
    stages = {
        "a": {"params": ["seeds", "finetune.ema", {"code.yaml": ["finetune.x"]}]},
        "b": {"foreach": "${finetune.methods}", "do": {"params": ["finetune.ema", "finetune.rates.${key}"]}},
    }
    assert listed_below("finetune", dvc_yaml={"stages": stages}) == ["ema", "rates", "methods"]
    assert listed_below("seeds", dvc_yaml={"stages": stages}) == []


def test_there_is_no_stage_without_a_dvc_yaml(in_tmp):
    assert read_graph().stages == {}


def test_the_projects_own_graph_is_that_of_dvc(monkeypatch):
    """Stages, deps, outs and params, with everything filled in; DVC keeps params among the deps."""
    from dvc.dependency.param import ParamsDependency
    from dvc.repo import Repo

    monkeypatch.chdir(ROOT)
    with Repo(".") as repo:
        theirs = {stage.addressing: stage for stage in repo.index.stages if ":" not in stage.addressing}
        ours = read_graph().stages
        assert set(ours) == set(theirs)
        for name, stage in ours.items():
            params = [dep for dep in theirs[name].deps if isinstance(dep, ParamsDependency)]
            files = [dep.def_path for dep in theirs[name].deps if dep not in params]
            assert sorted(stage.deps) == sorted(files), name
            assert sorted(stage.outs) == sorted(out.def_path for out in theirs[name].outs), name
            listed = {Param(dep.def_path, key) for dep in params for key in dep.params}
            assert set(stage.params) == listed, name
            assert stage.command == theirs[name].cmd
