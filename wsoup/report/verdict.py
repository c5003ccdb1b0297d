"""What is said of `wsoup.report.judgement`: tables, data of a figure, metrics, and the answer of a run in words."""

from __future__ import annotations

from typing import Any

from wsoup.evaluate.rows import CLASS_NAME, ENSEMBLE, soup_title
from wsoup.report.judgement import NO_GAIN, Asked, Judgement
from wsoup.report.means import PLACES
from wsoup.report.tables import Table, signed
from wsoup.statistics.noise import Verdict

OVER = {
    "class_name": "class name only",
    "ensemble": "80 prompt templates",
    "random": "random texts of the same m",
    "sample": "a sample of the ranking",
    "word": "Algorithm 2 (word soup)",
}
"""What soups are held against: key in metrics.json -> what tables say."""
NOISE = "no difference that this run can tell from noise"
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
    lines += [
        _line(soup_title(one.soup), one.over, PLACES[one.role], one.fixed, hangs_on=one.hangs_on, other=one.resampled)
        for one in judgement.comparisons
    ]
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


def _line(
    soup: str, over: str, on: str, verdict: Verdict, *, hangs_on: str | None, other: Verdict | None = None
) -> dict[str, Any]:
    line: dict[str, Any] = {"soup": soup, "over": OVER[over], "on": on, "hangs on": hangs_on or ""}
    line |= {"gain": verdict.mean, "low": verdict.low, "high": verdict.high, "p": verdict.p, "verdict": verdict.word}
    ends = {} if other is None else {"low, other datasets": other.low, "high, other datasets": other.high}
    word = {} if other is None else {"verdict, other datasets": other.word}
    return line | {"smallest visible": verdict.smallest_visible} | ends | word


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
    return [
        {"soup": soup_title(judged.soup), "mean": PLACES[judged.role]}
        | {key: value for key, value in _figures(judged.fixed).items() if key in ("gain", "low", "high", "verdict")}
        for judged in judgement.comparisons
        if judged.over == "class_name"
    ]


# -------------------------------------------------------------------------------------------- the headline


def headline(judgement: Judgement) -> str:
    """The answer of a run in at most three short sentences: what to use; the source's held-out images; all targets."""
    source = judgement.source.datasets[0]
    said = [f"{_advice(judgement)}.", f"Test images of {source}: {_compared(judgement.source)}."]
    if judgement.targets is not None:
        others = judgement.targets.datasets
        place = others[0] if len(others) == 1 else f"{len(others)} other datasets"
        said.append(f"{place[0].upper()}{place[1:]}: {_compared(judgement.targets)}.")
    return " ".join(said)


def _advice(judgement: Judgement) -> str:
    """By the verdicts over the class name alone, unless the templates beat the soup."""
    soup = f"`{judgement.soup}`"
    if _templates_win(judgement):
        return f"Use the 80 prompt templates: they beat {soup} by more than noise"
    words = [asked.over[CLASS_NAME.name].word for asked in judgement.asked]
    if "better" not in words:
        return f"Keep the class name alone: {soup} {'is worse' if 'worse' in words else 'gains nothing beyond noise'}"
    use = f"Use {soup}, {'score mean' if judgement.mode == 'score_mean' else 'centroid'} of all seeds"
    if "worse" not in words:
        return use
    good, bad = ("the source", "other datasets") if words[0] == "better" else ("other datasets", "the source")
    return f"{use}, for {good} and the class name alone for {bad}"


def _templates_win(judgement: Judgement) -> bool:
    """Where a soup loses to them somewhere, wins nowhere, and they are above the class name alone."""
    asked = [one for one in judgement.asked if ENSEMBLE.name in one.over]
    words = [one.over[ENSEMBLE.name].word for one in asked]
    above = all(
        one.rivals[ENSEMBLE.name] > one.rivals[CLASS_NAME.name]
        for one, word in zip(asked, words, strict=True)
        if word == "worse"
    )
    return "worse" in words and "better" not in words and above


def _compared(asked: Asked) -> str:
    """45.6 % instead of 46.0 %, -0.4 points [-1.9, +1.1]: no difference that this run can tell from noise."""
    verdict = asked.over[CLASS_NAME.name]
    text = (
        f"{asked.soup:.1f} % instead of {asked.rivals[CLASS_NAME.name]:.1f} %, {signed(verdict.mean, places=1)} points"
    )
    text += f" [{signed(verdict.low, places=1)}, {signed(verdict.high, places=1)}]"
    if not verdict.sure:
        return f"{text}: {NOISE}"
    return f"{text}, more than noise" + (f", but not without {asked.hangs_on}" if asked.hangs_on else "")
