"""Unselected texts on every dataset, and the bound that selects on the targets, against plain loops."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest
from evaluate_cases import line
from torch.nn import functional as F

from wsoup.evaluate.counts import count, mean_texts
from wsoup.evaluate.rows import Row
from wsoup.evaluate.transfer import Grid, mean_accuracy, ranked_on_targets, sample, transfer, upper_bound


def test_each_text_is_evaluated_alone(texts, tests):
    grid = Grid(["", "old", "sharp"], tests=tests, encoder=texts)
    counted = transfer(grid)
    assert counted.num_rows == 9
    rows = [Row("x", (1,), ("sharp",))]
    for test in tests:
        pairs = mean_texts(rows, tests=tests, encoder=texts).of(test)
        single = next(count(pairs, sizes={"sharp": 0}, test=test))
        got = line(counted, text="sharp", dataset=test.name)
        assert got["n_correct"] == single["n_correct"]
        assert got["alignment"] == pytest.approx(single["alignment"], abs=1e-5)
        assert got["uniformity"] == pytest.approx(single["uniformity"], abs=1e-5)


def test_mean_accuracy_weights_datasets_equally():
    assert mean_accuracy([1, 0], n_images=[2, 100]) > mean_accuracy([0, 49], n_images=[2, 100])
    assert mean_accuracy([1, 0], n_images=[2, 100]) == mean_accuracy([0, 50], n_images=[2, 100])


def test_the_upper_bound_is_the_one_by_one_loop_over_the_cross_dataset_targets(texts, tests):
    pool = ["old", "sharp", "red", "which is wet", "tall", "thin", "cold", "many", "loud"]
    grid = Grid(["", *pool], tests=tests, encoder=texts)
    ranked = ranked_on_targets(transfer(grid))
    assert sorted(ranked) == sorted(pool)
    members = [member.text for member in upper_bound(ranked, grid=grid, m=4)]
    targets = [test for test in tests if test.role == "xd"]
    assert len(targets) < len([test for test in tests if test.role != "source"])
    kept: list[str] = []
    best = -1.0
    for text in ranked:
        counts = []
        for test in targets:
            mean = mean_texts([Row("x", (1,), (*kept, text))], tests=targets, encoder=texts).of(test)[0][1]
            right = (test.image_features @ F.normalize(mean, dim=-1).T).argmax(dim=1) == test.labels
            counts.append(float(right.double().mean()))
        if sum(counts) / len(counts) > best + 1e-9 and len(kept) < 4:
            kept, best = [*kept, text], sum(counts) / len(counts)
    assert members == kept


def test_the_sample_is_fixed_and_in_pool_order():
    pool = [str(i) for i in range(50)]
    drawn = sample(pool, size=10)
    assert drawn == sample(pool, size=10) == sorted(drawn, key=int)
    assert sample(pool, size=99) == pool
    assert sample(pool, size=None) == pool


def test_shifts_count_for_the_bound_only_without_cross_dataset_targets(texts, tests):
    table = transfer(Grid(["", "old", "sharp"], tests=tests, encoder=texts))
    without = table.filter(pc.not_equal(table["role"], "dg"))
    assert ranked_on_targets(table) == ranked_on_targets(without)
    shifts = table.filter(pc.equal(table["role"], "dg"))
    assert sorted(ranked_on_targets(shifts)) == ["old", "sharp"]


def test_without_descriptors_there_is_no_bound(texts, tests):
    assert upper_bound([], grid=Grid([""], tests=tests, encoder=texts), m=4) == []
