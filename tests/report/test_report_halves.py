"""Base to new: pairs of halves, and the harmonic mean by hand, per seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from report_made import CLASS_NAME, both_seeds, results

from wsoup.disk.artifacts import PRETRAINED
from wsoup.params.inputs import DatasetParams
from wsoup.report.accuracy import base_to_new, metrics, zero_shot_table
from wsoup.report.results import Results, harmonic, pair_of_halves
from wsoup.report.terminal import summary

HALVES = ("pets_base", "pets_new")
ROLES = {"pets_base": "source", "pets_new": "xd"}
# Seed 1: 2 x 60 x 30 / 90 = 40. Seed 2: 2 x 40 x 40 / 80 = 40. Of the means, 50 and 35, it would be 41.18.
COUNTS = {"pets_base": (60, 40), "pets_new": (30, 40)}


def halved(lines: list[dict] | None = None) -> Results:
    usual = both_seeds("class_name", COUNTS) + both_seeds("word_soup", COUNTS, variant="coop", m=2, texts=2.0)
    return results(usual if lines is None else lines, roles=ROLES, halves=HALVES, halved=HALVES)


def dataset(role: str, classes: str, **changes: str) -> DatasetParams:
    section = {"role": role, "classes": classes, "layout": "imagefolder", "root": "pets", "watch": "pets"}
    return DatasetParams.model_validate({**section, "template": "a {}.", **changes})


def test_the_harmonic_mean_is_pulled_down_by_the_lower_one():
    assert harmonic(np.array([60.0, 40.0, 0.0, 0.0]), np.array([30.0, 40.0, 50.0, 0.0])).tolist() == [40, 40, 0, 0]
    assert math.isnan(harmonic(np.array([60.0]), np.array([math.nan]))[0])


def test_a_base_source_pairs_with_the_new_half_of_the_same_files():
    base, new = dataset("source", "base"), dataset("xd", "new")
    assert pair_of_halves({"one": base, "other": dataset("xd", "all"), "two": new}) == ("one", "two")
    assert pair_of_halves({"two": dataset("xd", "new", root="pets/"), "one": base}) == ("one", "two")


@pytest.mark.parametrize(
    "target",
    [
        dataset("xd", "all"),
        dataset("xd", "base"),
        dataset("dg", "new"),
        dataset("xd", "new", root="cars"),
        dataset("xd", "new", layout="coop:oxford_pets"),
    ],
)
def test_other_datasets_do_not_pair(target):
    assert pair_of_halves({"one": dataset("source", "base"), "two": target}) is None
    assert pair_of_halves({"one": dataset("source", "all"), "two": dataset("xd", "new")}) is None


def test_the_table_has_base_new_and_harmonic_mean_of_every_row():
    table = base_to_new(halved(), halves=HALVES)
    assert [(row["variant"], row["method"], row["m"]) for row in table.rows] == [
        ("pretrained", "Class name only", 1.0),
        ("coop", "Word soup", 2.0),
    ]
    for row in table.rows:
        assert (row["base"], row["new"], row["H"], row["H (std)"]) == (50.0, 35.0, 40.0, 0.0)
        assert (row["base (std)"], row["new (std)"]) == pytest.approx((20 / math.sqrt(2), 10 / math.sqrt(2)))
    text = table.as_markdown()
    assert "| pretrained | Class name only | 1 | 50.00 ± 14.14 | 35.00 ± 7.07 | 40.00 |" in text
    assert "Base: pets_base (5 classes, 100 test images), new: pets_new (5 classes, 100 test images)" in text


def test_the_upper_bound_is_noted_as_no_result():
    table = base_to_new(halved(both_seeds("upper_bound", COUNTS)), halves=HALVES)
    assert table.notes[-1] == "The upper bound was selected on the targets' test images: it is no result."


def test_metrics_and_the_terminal_show_the_harmonic_mean():
    entries = metrics(halved())
    for entry in (entries["pretrained"]["class_name"], entries["coop"]["word_soup"]):
        assert (entry["source"], entry["xd_mean"]) == (50.0, 35.0)
        assert (entry["harmonic_mean"], entry["harmonic_std"]) == (40.0, 0.0)
    head, first, *_ = summary(halved()).splitlines()
    assert head.split() == ["per", "cent", "source", "XD", "mean", "H"]
    assert first.endswith("40.00 ± 0.00")


def test_other_runs_have_no_harmonic_mean():
    plain = results()
    assert "harmonic" not in str(metrics(plain))
    assert summary(plain).splitlines()[0].endswith("DG mean")
    cells = plain.cells(PRETRAINED, plain.table[0])
    assert plain.harmonic(cells).shape == (0, 2)


def test_a_row_without_one_half_has_no_harmonic_mean():
    run = halved(both_seeds("class_name", COUNTS) + both_seeds("gpt", {"pets_base": (50, 50)}, m=None))
    assert metrics(run)["pretrained"]["gpt_centroids"] == {"source": 50.0, "source_std": 0.0}
    row = base_to_new(run, halves=HALVES).rows[1]
    assert row["base"] == 50.0
    assert math.isnan(row["H"])


def test_half_a_dataset_has_no_figures_of_the_paper():
    lines = both_seeds("class_name", CLASS_NAME)
    whole = zero_shot_table(results(lines)).rows[0]
    half = zero_shot_table(results(lines, halved=("dtd",))).rows[0]
    assert whole["dtd (paper)"] == 43.6
    assert "dtd (paper)" not in half
    assert half["eurosat (paper)"] == whole["eurosat (paper)"]
