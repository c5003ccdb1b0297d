"""What is said of `wsoup.report.judgement`: tables, data of a figure, metrics; in words: `wsoup.report.headline`."""

from __future__ import annotations

from typing import Any

from wsoup.evaluate.rows import soup_title
from wsoup.report.headline import headline
from wsoup.report.judgement import NO_GAIN, Judgement
from wsoup.report.means import PLACES
from wsoup.report.tables import Table
from wsoup.statistics.noise import Verdict

OVER = {
    "class_name": "class name only",
    "ensemble": "80 prompt templates",
    "random": "random texts of the same m",
    "sample": "a sample of the ranking",
    "word": "Algorithm 2 (word soup)",
}
"""What soups are held against: key in metrics.json -> what tables say."""
ALL_SEEDS = ", all seeds"
"""Behind the name of the soup that a run is about, where its seeds stand together."""


def verdict_table(judgement: Judgement) -> Table:
    """The run's own question, then every comparison: gain, intervals, p values, the smallest visible difference."""
    lines = [
        _line(
            soup_title(judgement.soup) + ALL_SEEDS,
            over,
            on,
            verdict,
            hangs_on=asked.hangs_on if over == "class_name" else None,
        )
        for on, asked in zip(("source", "all targets"), judgement.asked, strict=False)
        for over, verdict in asked.over.items()
    ]
    for judged in judgement.comparisons:
        resampled = judged.resampled
        line = _line(soup_title(judged.soup), judged.over, PLACES[judged.role], judged.fixed, hangs_on=judged.hangs_on)
        if resampled is not None:
            line |= {"low, other datasets": resampled.low, "high, other datasets": resampled.high}
            line["verdict, other datasets"] = resampled.word
        lines.append(line)
    columns = ["soup", "over", "on", "gain", "low", "high", "verdict", "p", "hangs on", "smallest visible"]
    columns += ["low, other datasets", "high, other datasets", "verdict, other datasets"]
    notes = [
        f"Points, and their {judgement.confidence:.0%} interval (low to high) over images and seeds, datasets held "
        "fixed: what other images of these datasets would give.",
        "Other datasets: the same with datasets resampled, which is what other datasets of this sort would give.",
        f"All seeds: the {soup_title(judgement.soup)} that this run is about (report.soup), as it is handed out, the "
        "members of all seeds together. It was named before anything was seen: its p is not corrected for others.",
        f"All other lines are means over seeds; their p is Holm's over these {len(judgement.comparisons)} comparisons.",
        f"The verdict goes by p. The {soup_title(judgement.soup)} is judged as a {judgement.mode.replace('_', ' ')}.",
        "Source: its held-out test images. XD: datasets with other classes. DG: the source's classes in other styles.",
        "Hangs on: the one dataset without which the verdict would be noise, or the gain of the other sign.",
        f"{NO_GAIN}: better than its rival, but not than the class name only.",
        "Smallest visible: the true difference that a run of this size, with so many comparisons, would call more than "
        "noise in 80 % of cases.",
    ]
    return Table("verdict", "Is it more than noise?", columns, lines, notes)


def _line(soup: str, over: str, on: str, verdict: Verdict, *, hangs_on: str | None) -> dict[str, Any]:
    line: dict[str, Any] = {"soup": soup, "over": OVER[over], "on": on, "hangs on": hangs_on or ""}
    line |= {"gain": verdict.mean, "low": verdict.low, "high": verdict.high, "p": verdict.p, "verdict": verdict.word}
    return line | {"smallest visible": verdict.smallest_visible}


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
    """Keys ``headline`` and ``verdict`` of metrics.json.

    The verdict is, for ``all_seeds`` and each soup, over_<what> -> source, xd, dg or targets -> figures; and optimism.
    """
    asked: dict[str, Any] = {}
    for on, part in zip(("source", "targets"), judgement.asked, strict=False):
        for over, verdict in part.over.items():
            hangs_on = {"hangs_on": part.hangs_on} if part.hangs_on and over == "class_name" else {}
            about = {"accuracy": round(part.soup, 3), "rival": round(part.rivals[over], 3)}
            asked.setdefault(f"over_{over}", {})[on] = about | _figures(verdict) | hangs_on
    metrics: dict[str, Any] = {"all_seeds": {"soup": judgement.soup, "mode": judgement.mode, **asked}}
    for judged in judgement.comparisons:
        entry = _figures(judged.fixed) | ({"hangs_on": judged.hangs_on} if judged.hangs_on else {})
        if judged.resampled is not None:
            entry["other_datasets"] = _figures(judged.resampled)
        soup = metrics.setdefault(f"{judged.soup}_soup", {})
        soup.setdefault(f"over_{judged.over}", {})[judged.role] = entry
    for one in judgement.optimism:
        figures = {"selection": one.selection, "held_out": one.held_out, "excess_over_class_name": one.excess}
        metrics.setdefault(f"{one.soup}_soup", {})["optimism"] = {key: round(v, 3) for key, v in figures.items()}
    return {"headline": headline(judgement), "verdict": metrics}


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
        row = {"soup": soup_title(judged.soup), "mean": PLACES[judged.role]}
        rows.append(row | {key: figures[key] for key in ("gain", "low", "high", "verdict")})
    return rows
