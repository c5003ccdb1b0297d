"""The table and figures of the diversity loss."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter
from report_made import both_seeds, results

from wsoup.finetune.params import MethodParams
from wsoup.report import analyses, plots


def method(weight: float | None, soup: str = "word") -> MethodParams:
    loss = {"kind": "cross_entropy"} | ({"lambda": weight, "teacher_logit_scale": 10} if weight else {})
    return TypeAdapter(MethodParams).validate_python(
        {
            "tune": {"kind": "prompt", "tokens": 3},
            "loss": loss,
            "soup": soup,
            "learning_rate": 1e-4,
            "prompt_factor": 10,
        }
    )


METHODS = {"half": method(0.5), "plain": method(None), "one_text": method(None, soup="class_name")}
DIVERGENCE = {"half": {0: [0.2, 0.4], 20: [0.1, 0.3]}, "plain": {0: [0.2, 0.4], 20: [0.0, 0.1]}}


@pytest.fixture
def run():
    lines = []
    for variant, n_correct in (("half", 50), ("plain", 40), ("one_text", 30)):
        counts = {"imagenet": (n_correct, n_correct + 2), "dtd": (10, 10), "eurosat": (20, 20), "imagenet_a": (5, 5)}
        lines += both_seeds("class_name", counts, variant=variant) + both_seeds("word_soup", counts, variant=variant)
    return results(lines, divergence=DIVERGENCE)


def test_the_table_is_sorted_by_lambda_and_shows_final_divergence(run):
    rows = analyses.diversity(run, methods=METHODS).rows
    assert [(row["method"], row["lambda"], row["members' KL"]) for row in rows] == [
        ("plain", 0.0, 0.05),
        ("half", 0.5, 0.2),
    ]
    assert rows[1]["source, soup"] == 51
    assert rows[1]["xd, soup"] == 15
    assert rows[1]["dg, class name"] == 5
    assert rows[1]["members' KL (std)"] == pytest.approx(0.1414, abs=1e-4)


def test_the_figure_has_every_logged_iteration_with_its_mean_over_seeds(run):
    rows = plots.members_kl(run, methods=METHODS)
    assert [(row["method"], row["lambda"], row["iteration"], row["kl"]) for row in rows] == [
        ("half", 0.5, 0, 0.3),
        ("half", 0.5, 20, 0.2),
        ("plain", 0.0, 0, 0.3),
        ("plain", 0.0, 20, 0.05),
    ]


def test_methods_trained_without_a_soup_are_left_out():
    assert plots.members_kl(results(), methods=METHODS) == []
    assert not analyses.diversity(results(), methods=METHODS).rows


def test_accuracy_during_training_is_a_mean_over_datasets_and_then_over_seeds():
    counts = {"imagenet": (50, 60), "dtd": (10, 20), "eurosat": (30, 40), "imagenet_a": (5, 5)}
    lines = [
        [seed, i, name, pair[seed - 1] + i, 100] for seed in (1, 2) for i in (0, 2) for name, pair in counts.items()
    ]
    points = plots.training(results(training={"half": lines}), methods=METHODS)
    assert [(row["mean"], row["iteration"], row["accuracy"], row["lambda"]) for row in points] == [
        ("DG mean", 0, 5, 0.5), ("DG mean", 2, 7, 0.5), ("XD mean", 0, 25, 0.5), ("XD mean", 2, 27, 0.5),
        ("source", 0, 55, 0.5), ("source", 2, 57, 0.5),
    ]  # fmt: skip
    assert points[2]["std"] == pytest.approx(7.071, abs=1e-3)
    assert plots.training(results(), methods=METHODS) == []
