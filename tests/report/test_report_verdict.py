"""Facts about the verdict: intervals that cover, paired images, Holm's correction, Student's table."""

from __future__ import annotations

import math

import numpy as np
import pytest

from wsoup.evaluate.bits import pack_right, unpack_right
from wsoup.report.verdict import (
    Estimate,
    compare,
    holm,
    student_cdf,
    student_quantile,
)


def drawn(generator, *, seeds, sizes, gain, of_dataset, of_seed, of_image):
    """Two rows on datasets of N images; the first is better by `gain` on average, in points, plus what is drawn.

    The chance of an image being right is 0.5 for the second row; for the first it moves with the dataset, the seed, and
    with the image (by the same for all seeds).
    """
    by_seed = generator.normal(0, of_seed, seeds)
    first, second = {}, {}
    for d, n in enumerate(sizes):
        image = generator.normal(0, of_image, n) if of_image else np.zeros(n)
        shift = gain + generator.normal(0, of_dataset) + by_seed[:, None] + image
        alike = generator.random((seeds, n)) < 0.7  # the rows answer alike on these
        plain = generator.random((1, n)).repeat(seeds, 0)
        other = np.where(alike, plain, generator.random((seeds, n)))
        second[f"d{d}"], first[f"d{d}"] = plain < 0.5, other < 0.5 + shift / 100
    return first, second


CASES = {
    "images only": {"of_dataset": 0, "of_seed": 0, "of_image": 0},
    "images that are alike for all seeds": {"of_dataset": 0, "of_seed": 0, "of_image": 30},
    "seeds decide": {"of_dataset": 0, "of_seed": 4, "of_image": 10},
    "seeds matter a little": {"of_dataset": 0, "of_seed": 1, "of_image": 10},
}


@pytest.mark.parametrize("seeds", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_intervals_with_datasets_held_fixed_cover_as_often_as_they_say(case, seeds):
    generator = np.random.default_rng(0)
    inside, runs = 0, 250
    for _ in range(runs):
        rows = drawn(generator, seeds=seeds, sizes=(120, 200, 80), gain=1.0, **CASES[case])
        low, high = compare(*rows).fixed.interval(0.95)
        inside += low <= 1.0 <= high
    assert 0.90 <= inside / runs <= 0.99


@pytest.mark.parametrize("of_seed", [0, 2])
@pytest.mark.parametrize("n_datasets", [4, 7])
def test_intervals_with_datasets_resampled_cover_too(n_datasets, of_seed):
    generator = np.random.default_rng(1)
    inside, runs = 0, 250
    for _ in range(runs):
        rows = drawn(
            generator, seeds=3, sizes=(150,) * n_datasets, gain=1.0, of_dataset=3, of_seed=of_seed, of_image=10
        )
        resampled = compare(*rows).resampled
        assert resampled is not None
        low, high = resampled.interval(0.95)
        inside += low <= 1.0 <= high
    assert 0.90 <= inside / runs <= 0.99


def test_without_a_difference_few_runs_find_one():
    generator = np.random.default_rng(2)
    found = [
        compare(
            *drawn(generator, seeds=3, sizes=(200,) * 4, gain=0.0, of_dataset=0, of_seed=1, of_image=0)
        ).fixed.p_value
        for _ in range(200)
    ]
    assert np.mean(np.array(found) < 0.05) <= 0.10


def test_the_smallest_visible_difference_is_seen_in_four_runs_of_five():
    generator = np.random.default_rng(3)

    def run(gain):
        return compare(
            *drawn(generator, seeds=6, sizes=(300,) * 4, gain=gain, of_dataset=0, of_seed=0, of_image=0)
        ).fixed

    visible = float(np.mean([run(0.0).smallest_visible(0.95) for _ in range(40)]))
    seen = np.mean([run(visible).interval(0.95)[0] > 0 for _ in range(150)])
    assert 0.7 <= seen <= 0.95


def test_by_hand_one_dataset_one_seed():
    """Four images, of which one is gained: 25 points, and the standard error of four paired draws."""
    first, second = np.array([[True, True, False, False]]), np.array([[True, False, False, False]])
    found = compare({"a": first}, {"a": second})
    assert found.resampled is None
    assert found.fixed.mean == 25
    assert found.fixed.se == pytest.approx(np.array([0, 100, 0, 0]).std(ddof=1) / 2)
    assert found.fixed.df == pytest.approx(3)


def test_datasets_count_alike_whatever_their_size():
    rows = {"small": np.array([[True, True]]), "large": np.zeros((1, 100), dtype=bool)}
    none = {name: np.zeros_like(right) for name, right in rows.items()}
    assert compare(rows, none).fixed.mean == 50


def test_equal_rows_differ_by_nothing():
    rows = {"a": np.array([[True, False, True]] * 2)}
    found = compare(rows, rows).fixed
    assert (found.mean, found.se, found.p_value) == (0, 0, 1.0)
    assert found.interval(0.95) == (0, 0)


def test_other_images_cannot_be_compared():
    with pytest.raises(ValueError, match="same datasets, seeds and images"):
        compare({"a": np.zeros((1, 3), dtype=bool)}, {"a": np.zeros((1, 4), dtype=bool)})


def test_holm_by_hand():
    assert holm([0.5, 0.01]) == [0.5, 0.02]
    assert holm([0.03, 0.03, 0.9]) == pytest.approx([0.09, 0.09, 0.9])
    assert holm([]) == []


@pytest.mark.parametrize(
    ("df", "t"), [(1, 12.706), (2, 4.303), (5, 2.571), (30, 2.042), (1000, 1.962), (math.inf, 1.95996)]
)
def test_students_table(df, t):
    assert student_quantile(0.975, df=df) == pytest.approx(t, abs=6e-4)
    assert student_cdf(-t, df=df) == pytest.approx(0.025, abs=2e-5)
    assert Estimate(t, 1.0, df).p_value == pytest.approx(0.05, abs=4e-5)


def test_which_images_are_right_fits_in_bits():
    right = np.random.default_rng(0).random(77) < 0.5
    assert len(pack_right(right)) == 10
    assert np.array_equal(unpack_right(pack_right(right), n_images=77), right)
