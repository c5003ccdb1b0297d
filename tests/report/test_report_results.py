"""Lines of a row, means and deviations by hand, and sizes by seed and dataset."""

from __future__ import annotations

import math

import numpy as np
import pytest
from report_made import CLASS_NAME, both_seeds, line, results

from wsoup.disk.files import PRETRAINED
from wsoup.report.labels import table
from wsoup.report.tables import mean_and_std

BY_KEY = {row.key: row for row in table(["word", "descriptor"])}
WORD = BY_KEY["word_soup"].method


def test_means_are_over_datasets_first_then_over_seeds():
    # Seed 1: (44 + 30) / 2 = 37, seed 2: (46 + 20) / 2 = 33. Mean 35, deviation |37 - 33| / sqrt(2).
    cells = results().cells(PRETRAINED, BY_KEY["word_soup"])
    mean, deviation = mean_and_std(cells.of(["dtd", "eurosat"]))
    assert (mean, deviation) == (35.0, pytest.approx(4 / math.sqrt(2)))


def test_one_seed_has_no_deviation_and_no_datasets_no_mean():
    assert mean_and_std(np.array([[1.0], [3.0]])) == (2.0, 0.0)
    assert all(math.isnan(value) for value in mean_and_std(np.empty((0, 2))))


def test_soups_are_shown_whole_and_draws_at_the_configured_size():
    lines = both_seeds("class_name", CLASS_NAME)
    lines += both_seeds("descriptor_soup", {"dtd": (10, 10)}, m=1)
    lines += [line("descriptor_soup", "dtd", 1, 20, m=3), line("descriptor_soup", "dtd", 2, 40, m=2)]
    lines += both_seeds("waffle", {"dtd": (50, 50)}, m=1) + both_seeds("waffle", {"dtd": (90, 90)}, m=2)
    run = results(lines)
    assert run.cells(PRETRAINED, BY_KEY["descriptor_soup"]).of(["dtd"]).tolist() == [[20.0, 40.0]]
    assert run.cells(PRETRAINED, BY_KEY["waffle"]).of(["dtd"]).tolist() == [[50.0, 50.0]]
    assert run.cells(PRETRAINED, BY_KEY["gpt_centroids"]) is None


def test_the_offset_trick_has_separate_rows():
    lines = both_seeds("word_soup", {"dtd": (10, 10)}, m=2) + both_seeds("word_soup", {"dtd": (30, 30)}, m=2, offsets=6)
    run = results(lines)
    assert run.cells(PRETRAINED, BY_KEY["word_soup"]).of(["dtd"]).mean() == 10
    assert run.cells(PRETRAINED, BY_KEY["word_soup_offsets"]).of(["dtd"]).mean() == 30


def test_a_curve_has_only_sizes_of_every_seed_and_dataset():
    assert list(results().curve(WORD, mode="centroid")) == [1, 2]
    lines = both_seeds("word_soup", CLASS_NAME, m=1) + [line("word_soup", name, 1, 5, m=2) for name in CLASS_NAME]
    assert list(results(lines).curve(WORD, mode="centroid")) == [1]
