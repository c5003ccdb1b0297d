"""Plot data by hand, and that each template draws it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
import vl_convert
from pydantic import TypeAdapter
from report_made import CLASS_NAME, both_seeds, results

from wsoup.disk import store
from wsoup.finetune.params import MethodParams
from wsoup.report import plots, plots_training
from wsoup.report.page import FIGURE_TEMPLATES, FIGURES, figure


@pytest.fixture
def scores(tmp_path):
    counts = {"": 5, "sharp": 9, "old": 2, "new": 7}
    columns = {"text": list(counts) * 2, "seed": [1] * 4 + [2] * 4, "n_correct": [*counts.values(), 0, 0, 0, 0]}
    store.write_table(tmp_path / "words.parquet", pa.table({**columns, "n_images": [10] * 8}))
    return {"words": tmp_path / "words.parquet"}


@pytest.fixture
def surveyed(tmp_path):
    rows = [("", 5, 5), ("sharp", 1, 2), ("old", 2, 4), ("new", 3, 6)]
    lines = [
        {"text": text, "role": role, "n_correct": n, "n_images": 10}
        for text, source, target in rows
        for role, n in (("source", source), ("xd", target), ("dg", target))
    ]
    store.write_table(tmp_path / "descriptors.parquet", pa.Table.from_pylist(lines))
    return tmp_path / "descriptors.parquet"


def method(weight: float | None, soup: str = "word") -> MethodParams:
    loss = {"kind": "cross_entropy"} | ({"lambda": weight, "teacher_logit_scale": 10} if weight else {})
    values = {"tune": {"kind": "prompt", "tokens": 3}, "loss": loss, "soup": soup}
    return TypeAdapter(MethodParams).validate_python({**values, "learning_rate": 1e-4, "prompt_factor": 10})


METHODS = {"half": method(0.5), "plain": method(None), "one_text": method(None, soup="class_name")}


def test_candidates_are_sorted_and_have_the_class_names_accuracy(scores):
    rows = plots.candidates(scores, seed=1)
    assert [(row["share"], row["accuracy"], row["none"]) for row in rows] == [(0, 90, 50), (50, 70, 50), (100, 20, 50)]


def test_a_long_curve_is_thinned_and_keeps_both_ends(tmp_path):
    table = pa.table({"text": [f"w{i}" for i in range(5000)], "seed": [1] * 5000, "n_correct": list(range(5000))})
    store.write_table(tmp_path / "w.parquet", table.append_column("n_images", [[5000] * 5000]))
    rows = plots.candidates({"words": tmp_path / "w.parquet"}, seed=1)
    assert len(rows) == plots.POINTS
    assert (rows[0]["accuracy"], rows[-1]["accuracy"]) == (99.98, 0.0)
    assert rows[0]["none"] is None


def test_correlation_of_source_and_targets(surveyed):
    rows = plots.transfer(surveyed)
    assert [row["kind"] for row in rows] == ["class name only", "descriptor", "descriptor", "descriptor"]
    assert (rows[1]["text"], rows[1]["source"], rows[1]["target"]) == ("sharp", 10.0, 20.0)
    assert rows[0]["correlation"] == 1.0


def test_gpt_centroids_are_a_point_of_the_curve_over_m():
    """At the mean number of descriptors of a class."""
    counts = {"imagenet": (1, 1), "dtd": (2, 3), "eurosat": (4, 4), "imagenet_a": (5, 5)}
    run = results(both_seeds("gpt", counts, m=None, texts=5.83))
    drawn = {(row["method"], row["m"], row["mean"]): row["accuracy"] for row in plots.by_size(run, mode="centroid")}
    assert drawn == {("GPT centroids", 5.8, "source"): 1, ("GPT centroids", 5.8, "XD mean"): 3.25,
                     ("GPT centroids", 5.8, "DG mean"): 5}  # fmt: skip


def test_accuracy_against_the_number_of_members():
    drawn = plots.by_size(results(soups=("word",)), mode="centroid")
    assert [(row["method"], row["m"], row["accuracy"]) for row in drawn if row["mean"] == "XD mean"] == [
        ("word soup", 1, 1.0),
        ("word soup", 2, 35.0),
    ]


def test_accuracy_against_numbers_stored():
    word = dict.fromkeys(CLASS_NAME, (5, 5))
    lines = both_seeds("word_soup", word, m=2, stored=7) + both_seeds("class_name", word, variant="ce", stored=0)
    lines += both_seeds("word_soup", word, variant="ce", m=2, stored=7)
    rows = plots.parameters(results(lines, parameters={"ce": 1000}), trained={"ce": "last_blocks"})
    shown = [row for row in rows if row["mean"] == "DG mean"]
    assert [(row["method"], row["trained"], row["texts"], row["stored"]) for row in shown] == [
        ("Word soup m=2", "nothing", "word soup", 7.0),
        ("ce", "last_blocks", "class name", 1000.0),
        ("ce + word soup", "last_blocks", "word soup", 1007.0),
    ]
    assert {row["accuracy"] for row in rows} == {5}


def test_divergence_has_every_logged_iteration_with_its_mean_over_seeds():
    """Only methods trained over a soup have any."""
    logged = {"half": [[(0, 0.2), (20, 0.1)], [(0, 0.4), (20, 0.3)]], "plain": [[(20, 0.0)], [(20, 0.1)]]}
    rows = plots_training.members_kl(results(members_kl=logged | {"one_text": [], "head": []}), methods=METHODS)
    assert [(row["method"], row["lambda"], row["iteration"], row["kl"]) for row in rows] == [
        ("half", 0.5, 0, 0.3),
        ("half", 0.5, 20, 0.2),
        ("plain", 0.0, 20, 0.05),
    ]
    assert rows[0]["std"] == pytest.approx(0.1414, abs=1e-4)
    assert plots_training.members_kl(results(), methods=METHODS) == []


def test_a_seed_whose_members_are_equal_counts_as_no_divergence():
    """Its log of the divergence is empty; the other seed's 0.4 becomes a mean of 0.2, at its own iterations."""
    logged = {"half": [[], [(0, 0.4), (20, 0.2)]]}
    rows = plots_training.members_kl(results(members_kl=logged), methods=METHODS)
    assert [(row["iteration"], row["kl"]) for row in rows] == [(0, 0.2), (20, 0.1)]


def test_accuracy_during_training_is_a_mean_over_datasets_and_then_over_seeds():
    counts = {"imagenet": (50, 60), "dtd": (10, 20), "eurosat": (30, 40), "imagenet_a": (5, 5)}
    lines = [
        [seed, i, name, pair[seed - 1] + i, 100] for seed in (1, 2) for i in (0, 2) for name, pair in counts.items()
    ]
    points = plots_training.training(results(training={"half": lines}), methods=METHODS)
    assert [(row["mean"], row["iteration"], row["accuracy"], row["lambda"]) for row in points] == [
        ("DG mean", 0, 5, 0.5), ("DG mean", 2, 7, 0.5), ("XD mean", 0, 25, 0.5), ("XD mean", 2, 27, 0.5),
        ("source", 0, 55, 0.5), ("source", 2, 57, 0.5),
    ]  # fmt: skip
    assert points[2]["std"] == pytest.approx(7.071, abs=1e-3)
    assert plots_training.training(results(), methods=METHODS) == []


def test_every_figure_draws_its_data(scores, surveyed):
    run = results(
        both_seeds("word_soup", {"imagenet": (1, 1), "dtd": (2, 3), "eurosat": (4, 4), "imagenet_a": (5, 5)}),
        soups=("word",),
    )
    trained = {"method": "ce", "lambda": 0.5, "std": 0.1}
    data = {
        "gains": [{"row": "word soup", "place": "XD mean", "gain": 1.0, "low": -1.0, "high": 3.0, "verdict": "noise"}],
        "candidates": plots.candidates(scores, seed=1),
        "transfer": plots.transfer(surveyed),
        "accuracy_by_m": plots.by_size(run, mode="centroid"),
        "parameters": plots.parameters(run, trained={}),
        "members_kl": [{**trained, "iteration": i, "kl": 0.1 * i} for i in range(3)],
        "training": [{**trained, "mean": "XD mean", "iteration": i, "accuracy": 50.0 + i} for i in range(3)],
    }
    assert set(data) == {path.stem for path in FIGURE_TEMPLATES.glob("*.json")}
    for name, rows in data.items():
        assert rows, name
        svg = vl_convert.vegalite_to_svg(figure(name, rows))
        assert "mark-line" in svg or "mark-symbol" in svg, name


@pytest.mark.parametrize("name", FIGURES)
def test_templates_have_dvcs_data_anchor_and_distinguish_revisions(name):
    text = (FIGURE_TEMPLATES / f"{name}.json").read_text()
    assert json.loads(text)["data"] == {"values": "<DVC_METRIC_DATA>"}
    assert '"rev"' in text
    assert "<DVC_METRIC" not in json.dumps(figure(name, []))
    assert '"field": "rev"' not in json.dumps(figure(name, []))
