"""Coverage of intervals from images and from counts, Holm's correction, and Student's table."""

from __future__ import annotations

import math

import numpy as np
import pytest

from wsoup.statistics.noise import (
    Comparison,
    Estimate,
    compare_counts,
    compare_images,
    judge,
    over_datasets,
    student_cdf,
    student_quantile,
)


def drawn(generator, *, seeds, sizes, gain, of_dataset, of_seed, of_image):
    """Two random classifiers on datasets of N images; the first is better by `gain` points on average.

    The second gets an image right with probability 0.5; for the first, the probability also depends on the dataset, the
    seed, and the image (alike for all seeds).
    """
    by_seed = generator.normal(0, of_seed, seeds)
    first, second = {}, {}
    for d, n in enumerate(sizes):
        image = generator.normal(0, of_image, n) if of_image else np.zeros(n)
        shift = gain + generator.normal(0, of_dataset) + by_seed[:, None] + image
        same = generator.random((seeds, n)) < 0.7  # both give the same answer
        plain = generator.random((1, n)).repeat(seeds, 0)
        other = np.where(same, plain, generator.random((seeds, n)))
        second[f"d{d}"], first[f"d{d}"] = plain < 0.5, other < 0.5 + shift / 100
    return first, second


CASES = {
    "images only": {"of_dataset": 0, "of_seed": 0, "of_image": 0},
    "images, alike for all seeds": {"of_dataset": 0, "of_seed": 0, "of_image": 30},
    "mostly seeds": {"of_dataset": 0, "of_seed": 4, "of_image": 10},
    "a little seeds": {"of_dataset": 0, "of_seed": 1, "of_image": 10},
}


@pytest.mark.long
@pytest.mark.parametrize("seeds", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_intervals_with_datasets_held_fixed_cover_as_often_as_they_say(case, seeds):
    generator = np.random.default_rng(0)
    inside, runs = 0, 250
    for _ in range(runs):
        rows = drawn(generator, seeds=seeds, sizes=(120, 200, 80), gain=1.0, **CASES[case])
        low, high = compare_images(*rows).fixed.interval(0.95)
        inside += low <= 1.0 <= high
    assert 0.90 <= inside / runs <= 0.995


@pytest.mark.long
@pytest.mark.parametrize("of_seed", [0, 2])
@pytest.mark.parametrize("n_datasets", [4, 7])
def test_intervals_with_datasets_resampled_cover_too(n_datasets, of_seed):
    generator = np.random.default_rng(1)
    inside, runs = 0, 250
    for _ in range(runs):
        rows = drawn(
            generator, seeds=3, sizes=(150,) * n_datasets, gain=1.0, of_dataset=3, of_seed=of_seed, of_image=10
        )
        resampled = compare_images(*rows).resampled
        assert resampled is not None
        low, high = resampled.interval(0.95)
        inside += low <= 1.0 <= high
    assert 0.90 <= inside / runs <= 0.995


@pytest.mark.parametrize(("mean", "p"), [(0.0, 1.0), (0.5, 0.0), (-0.5, 0.0)])
def test_without_spread_any_difference_is_sure(mean, p):
    assert Estimate(mean, 0.0, 5.0).p_value == p


def test_one_dataset_and_one_seed_by_hand():
    """One of four images is gained; two more, half gained and half lost, count only in the variance."""
    first, second = np.array([[True, True, False, False]]), np.array([[True, False, False, False]])
    comparison = compare_images({"a": first}, {"a": second})
    assert comparison.resampled is None
    assert comparison.fixed.mean == 25
    assert comparison.fixed.se == pytest.approx(100 * math.sqrt((1 + 1 - 1 / 6) / 5 / 6))
    assert comparison.fixed.df == pytest.approx(5)


@pytest.mark.long
@pytest.mark.parametrize("n_images", [20, 50, 150])
@pytest.mark.parametrize(("gained", "lost"), [(0.01, 0.001), (0.01, 0.01), (0.03, 0.01), (0.1, 0.02)])
def test_intervals_cover_where_few_images_changed(n_images, gained, lost):
    """One pair of classifiers: the probability that the interval covers the truth, summed over all outcomes."""
    covered = 0.0
    for n_gained, n_lost in ((g, lo) for g in range(n_images + 1) for lo in range(n_images + 1 - g)):
        n_same = n_images - n_gained - n_lost
        ways = math.lgamma(n_images + 1) - sum(math.lgamma(n + 1) for n in (n_gained, n_lost, n_same))
        chance = math.exp(
            ways + n_gained * math.log(gained) + n_lost * math.log(lost) + n_same * math.log(1 - gained - lost)
        )
        if chance > 1e-6:
            first, second = np.zeros((2, 1, n_images), dtype=bool)
            first[0, :n_gained], second[0, n_gained : n_gained + n_lost] = True, True
            low, high = compare_images({"a": first}, {"a": second}).fixed.interval(0.95)
            covered += chance if low <= 100 * (gained - lost) <= high else 0.0
    assert covered > 0.94


def test_two_images_of_150_with_three_seeds_are_noise_by_their_counts_too():
    """Resampling seeds alone would give 0.89 points, 0.67 to 1.33."""
    fixed = compare_counts(np.array([[76, 76, 77]]), np.array([[75, 75, 75]]), n_images=np.array([150])).fixed
    assert fixed.mean == pytest.approx(100 * 4 / 450)
    low, high = fixed.interval(0.95)
    assert low < -10 < 12 < high


def test_counts_give_wider_intervals_than_images():
    generator = np.random.default_rng(4)
    rows = drawn(generator, seeds=3, sizes=(120, 200, 80), gain=1.0, of_dataset=1, of_seed=1, of_image=0)
    counts = (np.stack([right.sum(axis=1) for right in row.values()]) for row in rows)
    by_counts, by_images = compare_counts(*counts, n_images=np.array([120, 200, 80])), compare_images(*rows)
    assert by_counts.fixed.mean == pytest.approx(by_images.fixed.mean)
    assert by_counts.fixed.se > 1.3 * by_images.fixed.se
    assert by_counts.resampled.interval(0.9) == pytest.approx(by_images.resampled.interval(0.9))


def test_datasets_resampled_by_hand():
    """Means 1 and 3 of the datasets, 2 and 2 of the seeds: only datasets differ, by a standard error of 1."""
    estimate = over_datasets(np.array([[1.0, 1.0], [3.0, 3.0]]))
    assert (estimate.mean, estimate.se, estimate.df) == (2.0, pytest.approx(1.0), pytest.approx(1.0))
    assert over_datasets(np.array([[1.0, 2.0]])) is None


def test_an_interval_excludes_zero_exactly_where_its_word_is_not_noise():
    """Holm's levels by hand: 0.05 / 4, 0.05 / 3; the third of four is noise, and the fourth has its level, 0.05 / 2."""
    estimates = [Estimate(z, 1.0, math.inf) for z in (-3.2, 2.1, 2.5, 2.2)]
    verdicts = judge(estimates, confidence=0.95)
    assert [v.word for v in verdicts] == ["worse", "noise", "better", "noise"]
    assert [round(0.05 / v.level, 6) for v in verdicts] == [4, 2, 3, 2]
    assert [v.low > 0 or v.high < 0 for v in verdicts] == [v.sure for v in verdicts]


def test_equal_rows_have_no_gain_but_an_interval():
    rows = {"a": np.array([[True, False, True] * 50] * 2)}
    fixed = compare_images(rows, rows).fixed
    assert (fixed.mean, fixed.p_value) == (0, 1.0)
    assert fixed.interval(0.95) == pytest.approx((-1.29, 1.29), abs=0.02)


def test_datasets_have_equal_weight_whatever_their_size():
    rows = {"small": np.array([[True, True]]), "large": np.zeros((1, 100), dtype=bool)}
    none = {name: np.zeros_like(right) for name, right in rows.items()}
    assert compare_images(rows, none).fixed.mean == 50


def test_different_images_cannot_be_compared():
    with pytest.raises(ValueError, match="same datasets, seeds and images"):
        compare_images({"a": np.zeros((1, 3), dtype=bool)}, {"a": np.zeros((1, 4), dtype=bool)})


HOLM = {(0.6745, 2.5758): [0.5, 0.02], (2.1701, 2.1701, 0.1257): [0.09, 0.09, 0.9], (2.1701, 0.6745): [0.06, 0.5]}
HOLM[()] = []


def test_holm_by_hand():
    """z of 0.6745, 2.5758 and 2.1701 have p of 0.5, 0.01 and 0.03."""
    p_values = {z: [v.p for v in judge([Estimate(x, 1.0, math.inf) for x in z], confidence=0.95)] for z in HOLM}
    assert p_values == {z: pytest.approx(adjusted, abs=1e-4) for z, adjusted in HOLM.items()}


@pytest.mark.parametrize(
    ("df", "t"), [(1, 12.706), (2, 4.303), (5, 2.571), (30, 2.042), (1000, 1.962), (math.inf, 1.95996)]
)
def test_students_table(df, t):
    assert student_quantile(0.975, df=df) == pytest.approx(t, abs=6e-4)
    assert student_cdf(-t, df=df) == pytest.approx(0.025, abs=2e-5)
    assert Estimate(t, 1.0, df).p_value == pytest.approx(0.05, abs=4e-5)


def test_intervals_stay_within_what_accuracy_can_change():
    low, high = judge([Estimate(-95.0, 20.0, 9.0), Estimate(95.0, 20.0, 9.0)], confidence=0.95)
    assert (low.low, high.high) == (-100.0, 100.0)


def gained(**images: int) -> dict[str, np.ndarray]:
    """The first images of 200 of each dataset."""
    return {name: np.arange(200)[None] < n for name, n in images.items()}


@pytest.mark.parametrize(
    ("first", "second", "level", "carrier"),
    [
        (gained(a=0, b=60, c=0), gained(a=0, b=0, c=0), 0.05, "b"),
        (gained(a=60, b=60, c=0), gained(a=0, b=0, c=0), 0.05, None),
        (gained(b=60), gained(b=0), 0.05, None),
        (gained(a=190, b=0, c=0), gained(a=0, b=60, c=60), 0.05, "a"),  # without it surely the other way round
        (gained(a=8, b=8), gained(a=0, b=0), 1e-3, None),  # either alone would be noise at this level
    ],
)
def test_a_difference_hangs_on_the_one_dataset_that_carries_it(first, second, level, carrier):
    comparison = compare_images(first, second)
    assert comparison.fixed.p_value < 1e-3
    assert comparison.sole_carrier(level) == carrier


def test_a_dataset_is_judged_at_the_level_that_is_asked_for():
    """Without it, two standard errors: p is 0.0455."""
    fixed, others = Estimate(3.0, 1.0, math.inf), Estimate(2.0, 1.0, math.inf)
    comparison = Comparison(fixed, None, {"pets": others, "cars": fixed})
    assert comparison.sole_carrier(0.01) == "pets"
    assert comparison.sole_carrier(0.05) is None


def test_what_is_left_without_a_dataset_has_the_images_of_the_others():
    """Three datasets of very different size and spread, each left out in turn."""
    generator = np.random.default_rng(0)
    first, second = {}, {}
    for name, n, share in (("few", 60, 0.5), ("some", 600, 0.9), ("many", 6000, 0.99)):
        first[name] = generator.random((1, n)) < share
        second[name] = generator.random((1, n)) < share
    without = compare_images(first, second).without
    for name in first:
        left_first = {other: right for other, right in first.items() if other != name}
        left_second = {other: right for other, right in second.items() if other != name}
        expected = compare_images(left_first, left_second).fixed
        assert without[name].mean == pytest.approx(expected.mean)
        assert without[name].se == pytest.approx(expected.se, rel=0.02)


def test_counts_of_none_and_of_all_have_half_an_image_more_on_each_side():
    """0 and 10 of 10 images, as if 0.5 and 10.5 of 11."""
    estimate = compare_counts(np.array([[10]]), np.array([[0]]), n_images=np.array([10])).fixed
    share = 0.5 / 11
    assert estimate.mean == 100
    assert estimate.se == pytest.approx(math.sqrt(2 * 1e4 * share * (1 - share) / 10))
    half = compare_counts(np.array([[10]]), np.array([[5]]), n_images=np.array([10])).fixed
    assert half.se == pytest.approx(math.sqrt(1e4 * (share * (1 - share) + 1 / 4) / 10)), "the second row varies, too"


@pytest.mark.parametrize(
    ("differences", "se"),
    [
        ([[0.0, 10.0], [10.0, 0.0]], 0.0),  # the datasets' means are 5 and 5, the seeds' too
        ([[0.0, 10.0], [0.0, 10.0]], 5.0),  # the seeds' are 0 and 10: a variance of 50, of their mean 25
        ([[0.0, 0.0], [10.0, 10.0]], 5.0),
    ],
)
def test_other_datasets_and_other_seeds_both_vary(differences, se):
    assert over_datasets(np.array(differences)).se == pytest.approx(se)


def test_half_an_image_gained_and_half_lost_are_shared_among_datasets():
    """Ten images of each of two datasets, none changed: a quarter of an image more on either side of 11 in each."""
    same = {name: np.ones((1, 10), dtype=bool) for name in ("pets", "cars")}
    estimate = compare_images(same, same).fixed
    of_one = (1e4 * 0.5) / (11 - 1) / 11
    assert (estimate.mean, estimate.se) == (0, pytest.approx(math.sqrt(2 * of_one / 4)))
