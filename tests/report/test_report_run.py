"""Seconds and costs of stages, and warnings about features of different package versions."""

from __future__ import annotations

import json

from report_made import results

from wsoup.images.reuse import differing
from wsoup.report import page, run, terminal


def entry(stage: str, seconds: float) -> str:
    return json.dumps({"stage": stage, "seconds": seconds, "cpu_seconds": 1.0, "peak_mib": 9, "device": "auto"})


def test_timings_of_the_latest_runs_skip_truncated_lines(tmp_path):
    whole = [entry("embed", 1.0), entry("score", 2.0), entry("embed", 3.0)]
    path = tmp_path / "timings.jsonl"
    path.write_text("\n".join([whole[0][:20], *whole, "[]", '{"stage": "word_soup"}', "\x00"]) + "\n" + whole[1][:-9])
    assert [(row.stage, row.seconds) for row in run.timings(path)] == [("score", 2.0), ("embed", 3.0)]
    assert run.timings(tmp_path / "none.jsonl") == []


def test_older_minor_versions_are_named_but_not_patch_versions():
    versions = {
        "a": {"pillow": "10.4.0", "torchvision": "0.20.1+cpu", "torch": "2.5.1"},
        "b": {"pillow": "11.0.0", "torchvision": "0.20.0", "torch": "2.6.0"},
        "c": {"pillow": "11.0.3"},
    }
    assert differing(versions) == {"a": "were made with pillow 10.4.0, others with 11.0.0"}
    assert differing({"b": versions["b"], "c": versions["c"], "d": {}}) == {}
    both = differing({"a": versions["a"], "e": {"pillow": "9.1.0", "torchvision": "0.19.0"}})
    assert both == {
        "e": "were made with torchvision 0.19.0, others with 0.20.1+cpu and pillow 9.1.0, others with 10.4.0"
    }


def test_versions_are_compared_as_numbers():
    assert list(differing({"a": {"pillow": "9.5.0"}, "b": {"pillow": "10.0.0"}})) == ["a"]
    assert list(differing({"a": {"pillow": "unknown"}, "b": {"pillow": "10.0.0"}})) == ["a"]


def test_the_page_names_datasets_whose_features_are_older():
    run_results = results()
    for name, version in (("dtd", "10.4.0"), ("eurosat", "11.0.0")):
        run_results.facts[name]["made_with"] = {"pillow": version}
    (warning,) = page.mixed_versions(run_results)
    assert warning.startswith("dtd: its features were made with pillow 10.4.0, others with 11.0.0;")
    assert page.mixed_versions(results()) == []


def test_seconds_and_flops_are_split_into_images_and_texts(tmp_path):
    path = tmp_path / "timings.jsonl"
    usual = {"cpu_seconds": 1.0, "peak_mib": 9, "device": "auto"}
    images, texts = {"images_seconds": 234.0, "images_gflops": 9e6}, {"texts_seconds": 4.6, "texts_gflops": 2e3}
    lines = [
        {"stage": "embed@dtd", "seconds": 99.0, "spent": {"images_seconds": 98.0}},  # an earlier run
        {"stage": "score@words", "seconds": 7.0},  # of an earlier version, without costs
        {"stage": "embed@dtd", "seconds": 100.0, "spent": {"images_seconds": 94.0, "images_gflops": 4e6}},
        {"stage": "embed@eurosat", "seconds": 150.0, "spent": {"images_seconds": 140.0, "images_gflops": 5e6}},
        {"stage": "evaluate", "seconds": 10.0, "spent": texts},
        {"stage": "embed_train", "seconds": 3.0, "spent": {"images_seconds": 2.0}},
        {"stage": "report", "seconds": 3.0, "spent": {}},
    ]
    path.write_text("".join(json.dumps({**usual, **line}) + "\n" for line in lines))
    costs = {row.pop("stage"): row for row in run.costs(path)}
    assert list(costs) == ["embed", "evaluate", "embed_train", "evaluation, all of it"]
    assert costs["evaluation, all of it"] == {"seconds": 260.0, **images, **texts}
    assert costs["embed"] == {"seconds": 250.0, **images, "texts_seconds": 0.0, "texts_gflops": 0.0}
    shown = terminal.costs_shown(path).splitlines()
    assert shown[-1].split() == ["evaluation,", "all", "of", "it", "260.0", "234.0", "4.6", "9,000,000.0", "2,000.0"]
    assert terminal.costs_shown(tmp_path / "none.jsonl") == ""
