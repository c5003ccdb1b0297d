"""The headline of a run: what to use and its gain, in at most three sentences."""

from __future__ import annotations

import pytest

from wsoup.report.terminal import headline
from wsoup.report.verdict import Judgement, MainVerdict
from wsoup.statistics.noise import Verdict

NOISE = "no difference that this run can tell from noise"


def verdict_of(
    gain: float, *, over_templates: float | None = None, names=("photos",), sure=2.0, hangs_on=None
) -> MainVerdict:
    """A soup at 46 + gain per cent and a class name at 46; a difference of `sure` points or more is more than noise."""

    def verdict(mean: float) -> Verdict:
        word = "noise" if abs(mean) < sure else "better" if mean > 0 else "worse"
        return Verdict(mean, mean - sure, mean + sure, 0.5, 0.05, word)

    rivals, over = {"class_name": 46.0}, {"class_name": verdict(gain)}
    if over_templates is not None:
        rivals["ensemble"], over["ensemble"] = 46.0 + gain - over_templates, verdict(over_templates)
    return MainVerdict(names, 46.0 + gain, rivals, over, hangs_on)


def headline_of(source: MainVerdict, targets: MainVerdict | None = None, *, mode: str = "centroid") -> str:
    return headline(Judgement("top", mode, source, targets, (), (), 0.95))


def test_a_run_without_targets_has_two_sentences():
    assert headline_of(verdict_of(-0.4)) == (
        "Keep the class name alone: `top` gains nothing beyond noise. "
        f"Test images of photos: 45.6 % instead of 46.0 %, -0.4 points [-2.4, +1.6]: {NOISE}."
    )


def test_a_gain_on_targets_recommends_the_soup_and_names_what_it_hangs_on():
    targets = verdict_of(5.5, names=("a", "b", "eurosat"), hangs_on="eurosat")
    assert headline_of(verdict_of(-0.4), targets) == (
        "Use `top`, centroid of all seeds. "
        f"Test images of photos: 45.6 % instead of 46.0 %, -0.4 points [-2.4, +1.6]: {NOISE}. "
        "3 other datasets: 51.5 % instead of 46.0 %, +5.5 points [+3.5, +7.5], "
        "more than noise, but not without eurosat."
    )


@pytest.mark.parametrize(
    ("source", "targets", "advice"),
    [
        (3.0, 3.0, "Use `top`, centroid of all seeds"),
        (-3.0, 0.0, "Keep the class name alone: `top` is worse"),
        (3.0, -3.0, "Use `top`, centroid of all seeds, for the source and the class name alone for other datasets"),
        (-3.0, 3.0, "Use `top`, centroid of all seeds, for other datasets and the class name alone for the source"),
    ],
)
def test_advice_follows_the_verdicts_over_the_class_name(source, targets, advice):
    assert headline_of(verdict_of(source), verdict_of(targets, names=("sketch",))).startswith(f"{advice}. ")


def test_templates_that_beat_the_soup_are_recommended():
    beaten = "Use the 80 prompt templates: they beat `top` by more than noise. "
    assert headline_of(verdict_of(3.0, over_templates=-2.5)).startswith(beaten)
    worse_than_both = headline_of(verdict_of(-6.0, over_templates=-2.5))  # the class name beats the templates
    assert worse_than_both.startswith("Keep the class name alone")
    assert headline_of(verdict_of(3.0, over_templates=1.0)).startswith("Use `top`")
    mixed = verdict_of(3.0, over_templates=2.5), verdict_of(3.0, over_templates=-2.5, names=("sketch",))
    assert headline_of(*mixed).startswith("Use `top`")


def test_the_judged_mode_is_named():
    assert headline_of(verdict_of(3.0), mode="score_mean").startswith("Use `top`, score mean of all seeds. ")
