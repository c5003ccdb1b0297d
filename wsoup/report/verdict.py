"""What is said of `wsoup.report.judgement`: tables, data of a figure, metrics, and one paragraph in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wsoup.evaluate.rows import soup_title
from wsoup.report.judgement import NO_GAIN, Judged, Judgement
from wsoup.report.means import MEANS
from wsoup.report.tables import Table
from wsoup.statistics.noise import Verdict

OVER = {
    "class_name": "class name only",
    "random": "random texts of the same m",
    "sample": "a sample of the ranking",
    "word": "Algorithm 2 (word soup)",
}
"""What soups are held against: key in metrics.json -> what tables say."""


def verdict_table(judgement: Judgement) -> Table:
    """Every comparison: gain, intervals, corrected p values, the smallest visible difference."""
    lines = []
    for judged in judgement.comparisons:
        fixed, resampled = judged.fixed, judged.resampled
        line: dict[str, Any] = {"soup": soup_title(judged.soup), "over": OVER[judged.over], "role": judged.role.upper()}
        line |= {"gain": fixed.mean, "low": fixed.low, "high": fixed.high, "p": fixed.p, "verdict": fixed.word}
        line |= {"hangs on": judged.hangs_on or "", "smallest visible": fixed.smallest_visible}
        if resampled is not None:
            line |= {"low, other datasets": resampled.low, "high, other datasets": resampled.high}
            line["verdict, other datasets"] = resampled.word
        lines.append(line)
    columns = ["soup", "over", "role", "gain", "low", "high", "p", "verdict", "hangs on", "smallest visible"]
    columns += ["low, other datasets", "high, other datasets", "verdict, other datasets"]
    notes = [
        f"Points; low to high is the {judgement.confidence:.0%} interval over images and seeds, datasets held fixed: "
        "what other images of these datasets would give.",
        "Other datasets: the same with datasets resampled, which is what other datasets of this sort would give.",
        f"p is Holm's, over the {len(lines)} comparisons of this table; the verdict goes by it.",
        "Hangs on: the one dataset without which the verdict would be noise, or the gain of the other sign.",
        f"{NO_GAIN}: better than its rival, but not than the class name only.",
        "Smallest visible: the true difference that a run of this size, with so many comparisons, would call more than "
        "noise in 80 % of cases.",
    ]
    return Table("verdict", "Is it more than noise?", columns, lines, notes)


def optimism_table(judgement: Judgement) -> Table:
    """Accuracy where a soup was selected, and where it was not."""
    lines = [
        {
            "soup": soup_title(one.soup),
            "selection images": one.selection,
            "held-out images": one.held_out,
            "difference": one.selection - one.held_out,
            "difference, class name only": one.name_loss,
            "optimism": one.excess,
        }
        for one in judgement.optimism
    ]
    notes = [
        "Per cent on the source, means over seeds. Optimism is the first difference minus that of the class name "
        "alone, which selected nothing: so much of a gain on the selection images is selection itself."
    ]
    columns = ["soup", "selection images", "held-out images", "difference", "difference, class name only", "optimism"]
    return Table("optimism", "The selection's own optimism", columns, lines, notes)


def verdict_metrics(judgement: Judgement) -> dict[str, Any]:
    """Key ``verdict`` of metrics.json: soup -> over_<what> -> role -> figures; and optimism."""
    metrics: dict[str, Any] = {}
    for judged in judgement.comparisons:
        entry = _figures(judged.fixed) | ({"hangs_on": judged.hangs_on} if judged.hangs_on else {})
        if judged.resampled is not None:
            entry["other_datasets"] = _figures(judged.resampled)
        soup = metrics.setdefault(f"{judged.soup}_soup", {})
        soup.setdefault(f"over_{judged.over}", {})[judged.role] = entry
    for one in judgement.optimism:
        figures = {"selection": one.selection, "held_out": one.held_out, "excess_over_class_name": one.excess}
        metrics.setdefault(f"{one.soup}_soup", {})["optimism"] = {key: round(v, 3) for key, v in figures.items()}
    return metrics


def _figures(verdict: Verdict) -> dict[str, Any]:
    figures = {"gain": verdict.mean, "low": verdict.low, "high": verdict.high}
    figures["smallest_visible"] = verdict.smallest_visible
    rounded = {key: round(value, 3) for key, value in figures.items()}
    return {**rounded, "p": float(f"{verdict.p:.3g}"), "verdict": verdict.word}


def gains(judgement: Judgement) -> list[dict[str, Any]]:
    """Data of the figure: {soup, mean, gain, low, high, verdict}, the gain over the class name alone."""
    rows = []
    for judged in judgement.against("class_name"):
        figures = _figures(judged.fixed)
        row = {"soup": soup_title(judged.soup), "mean": MEANS[judged.role]}
        rows.append(row | {key: figures[key] for key in ("gain", "low", "high", "verdict")})
    return rows


def sentence(judgement: Judgement) -> str:
    """What a run found over the class name only and over a sample, in plain words; "" where there is no target."""
    over_name, over_sample = judgement.against("class_name"), judgement.against("sample")
    if not over_name:
        return ""
    better, worse, noise = (
        [judged for judged in over_name if judged.fixed.word == word] for word in ("better", "worse", "noise")
    )
    smallest = max((judged.fixed.smallest_visible for judged in noise), default=0.0)
    unsure = f"{_listed(noise)}; this run could have seen differences from {smallest:.2f} points."
    said = [f"More than noise over the class name only: {_listed(better)}."] if better else []
    said += [f"Worse than the class name only: {_listed(worse)}."] if worse else []
    none = "No more than noise" if said else "No soup's gain over the class name only is more than noise"
    said += [f"{none}: {unsure}"] if noise else []
    searched = [judged for judged in over_sample if judged.fixed.word == "better"]
    if searched:
        said.append(f"Better than a sample of the ranking by more than noise: {_listed(searched)}.")
    elif over_sample:
        said.append("No search is better than a sample of the ranking by more than noise.")
    return " ".join(said)


def _listed(comparisons: Sequence[Judged]) -> str:
    """word soup +2.74 points on XD and +2.48 points on DG, ..."""
    by_soup: dict[str, list[str]] = {}
    for judged in comparisons:
        text = f"{judged.fixed.mean:+.2f} points on {judged.role.upper()}"
        if judged.fixed.sure and judged.resampled is not None and not judged.resampled.sure:
            text += " (on these datasets; not beyond them)"
        text += f" (hangs on {judged.hangs_on})" if judged.hangs_on else ""
        by_soup.setdefault(soup_title(judged.soup), []).append(text)
    return ", ".join(f"{title} {' and '.join(texts)}" for title, texts in by_soup.items())
