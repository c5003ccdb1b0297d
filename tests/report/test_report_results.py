"""Lines of a row, means and deviations by hand, and sizes by seed and dataset."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from report_made import CLASS_NAME, both_seeds, line, results

from wsoup.base.errors import MismatchError
from wsoup.disk.files import PRETRAINED
from wsoup.disk.store import write_table
from wsoup.report.labels import table
from wsoup.report.lines import read_lines
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


def test_a_row_with_prompts_by_class_has_its_own_number_of_texts_on_each_dataset():
    """Three sentences a class on one dataset, two on another, and on a third as many as each class has."""
    lines = both_seeds("cupl", {"dtd": (50, 50)}, m=3) + both_seeds("cupl", {"eurosat": (60, 60)}, m=2)
    lines += both_seeds("cupl", {"imagenet": (70, 70)}, m=None)
    cells = results(lines).cells(PRETRAINED, BY_KEY["cupl"])
    assert cells.of(["dtd", "eurosat", "imagenet"]).tolist() == [[50.0, 50.0], [60.0, 60.0], [70.0, 70.0]]


def test_the_offset_trick_has_separate_rows():
    lines = both_seeds("word_soup", {"dtd": (10, 10)}, m=2) + both_seeds("word_soup", {"dtd": (30, 30)}, m=2, offsets=6)
    run = results(lines)
    assert run.cells(PRETRAINED, BY_KEY["word_soup"]).of(["dtd"]).mean() == 10
    assert run.cells(PRETRAINED, BY_KEY["word_soup_offsets"]).of(["dtd"]).mean() == 30


def test_a_curve_has_only_sizes_of_every_seed_and_dataset():
    assert list(results().curve(WORD, mode="centroid")) == [1, 2]
    lines = both_seeds("word_soup", CLASS_NAME, m=1) + [line("word_soup", name, 1, 5, m=2) for name in CLASS_NAME]
    assert list(results(lines).curve(WORD, mode="centroid")) == [1]


def test_the_pretrained_model_comes_first_and_seeds_are_in_order():
    lines = [line("class_name", "dtd", seed, 1, variant=name) for name in ("zoo", "adapter") for seed in (300, 5)]
    lines += [line("class_name", "dtd", 300, 1)]
    run = results(lines)
    assert run.variants == [PRETRAINED, "adapter", "zoo"]
    assert run.seeds == (5, 300)


def test_draws_of_a_finetuned_model_have_a_size_of_their_own():
    """Tables show one text for the pretrained model and two for others (evaluate.tuned_baseline_m)."""
    lines = both_seeds("waffle", {"dtd": (50, 50)}, m=1, variant="coop")
    lines += both_seeds("waffle", {"dtd": (90, 90)}, m=2, variant="coop")
    assert results(lines).cells("coop", BY_KEY["waffle"]).of(["dtd"]).tolist() == [[90.0, 90.0]]


def test_the_offset_trick_is_no_point_of_a_curve():
    lines = both_seeds("word_soup", CLASS_NAME, m=1) + both_seeds("word_soup", CLASS_NAME, m=2)
    lines += both_seeds("word_soup", CLASS_NAME, m=2, offsets=6)
    assert list(results(lines).curve(WORD, mode="centroid")) == [1, 2]


def test_a_key_may_name_the_first_members_of_a_soup():
    run = results()
    assert (run.row("word_soup").m, run.row("word_soup@8").m) == (None, 8)
    assert run.row("word_soup@8").method == run.row("word_soup").method


def test_rows_have_the_papers_labels_where_any_dataset_is_the_papers():
    row = BY_KEY["class_name"]
    own = both_seeds("class_name", {"shapes": (1, 1)})
    assert results(own, roles={"shapes": "source"}).label(row) == "Class name only"
    mixed = own + both_seeds("class_name", {"dtd": (1, 1)})
    assert results(mixed, roles={"shapes": "source", "dtd": "xd"}).label(row) == "CLIP ZS"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ([line("word_soup", "dtd", 1, 101)], "no count of 'pretrained'"),
        ([line("word_soup", "dtd", 1, 5, variant="coop")], "no count of 'pretrained'"),
        ([line("word_soup", "cars", 1, 5)], "no count of 'pretrained'"),
        ([line("word_soup", "dtd", 1, 5), line("word_soup", "dtd", 1, 6)], "twice there"),
    ],
)
def test_lines_that_no_stage_writes_are_refused(tmp_path, change, reason):
    write_table(tmp_path / "results.parquet", pa.Table.from_pylist(change))
    with pytest.raises(MismatchError, match=reason):
        read_lines(tmp_path / "results.parquet", variant=PRETRAINED, datasets=["dtd"])


def test_one_row_may_have_several_sizes_offsets_and_texts(tmp_path):
    lines = [line("word_soup", "dtd", 1, 5, **by) for by in ({}, {"m": 2}, {"offsets": 6}, {"mode": "score_mean"})]
    write_table(tmp_path / "results.parquet", pa.Table.from_pylist(lines))
    assert len(read_lines(tmp_path / "results.parquet", variant=PRETRAINED, datasets=["dtd"])) == 4
