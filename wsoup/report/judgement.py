"""The verdict on each soup of a run: are its gains more than noise? `wsoup.core.statistics` decides, image by image.

A soup is held against the class name alone, as many random texts from its own pool, a soup of kind `sample` from that
pool, and Algorithm 2 (the soup `word`), in the mode that cards show, on XD and on DG. All comparisons of a run are
corrected together (Holm): those with datasets held fixed, and those with datasets resampled, each among themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.core.statistics import Verdict, compare_images, judge
from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED
from wsoup.evaluate.bits import unpack_right
from wsoup.evaluate.rows import CLASS_NAME, judged_row, judged_soups, random_beside, soup_title
from wsoup.report.means import MEANS
from wsoup.report.tables import Table
from wsoup.search.grow.params import SoupParams

Right = dict[str, np.ndarray]
"""Dataset -> (K, N) bool: the images that a row gets right with each seed."""
OVER = {
    "class_name": "class name only",
    "random": "random texts of the same m",
    "sample": "a sample of the ranking",
    "word": "Algorithm 2 (word soup)",
}
"""What soups are held against: key in metrics.json -> what tables say."""
NO_GAIN = "no gain"
"""Instead of better, where a soup beats other texts and neither beats the class name."""


@dataclass(frozen=True)
class Judged:
    """One soup against one rival.

    Attributes:
        soup: name in params.yaml.
        over: key of `OVER`.
        role: xd or dg.
        fixed: the verdict with datasets held fixed; its word may also be `NO_GAIN`.
        resampled: the same with datasets resampled; None with a single dataset.
        hangs_on: the one dataset without which `fixed` would be noise, or of the other sign; None where there is none.
    """

    soup: str
    over: str
    role: str
    fixed: Verdict
    resampled: Verdict | None
    hangs_on: str | None


@dataclass(frozen=True)
class Optimism:
    """Accuracy in per cent, means over seeds, on the images that selection saw and on held-out images of the source."""

    soup: str
    selection: float
    held_out: float
    name_selection: float
    name_held_out: float

    @property
    def excess(self) -> float:
        """How much more the soup loses on held-out images than the class name alone, which selected nothing."""
        return (self.selection - self.held_out) - (self.name_selection - self.name_held_out)


@dataclass(frozen=True)
class Judgement:
    """All that is said of a run.

    Attributes:
        comparisons: in the order of soups, `OVER` and roles.
        optimism: of each soup.
        confidence: of all intervals.
    """

    comparisons: tuple[Judged, ...]
    optimism: tuple[Optimism, ...]
    confidence: float

    def against(self, over: str) -> list[Judged]:
        """The comparisons with one rival, a key of `OVER`."""
        return [judged for judged in self.comparisons if judged.over == over]


def load_judgement(
    results: Path, *, soups: Mapping[str, SoupParams], roles: Mapping[str, str], confidence: float
) -> Judgement:
    """Judge every soup from what stage `evaluate` stored.

    Args:
        results: folder of counts.
        soups: definitions by name.
        roles: role of each dataset.
        confidence: of intervals, such as 0.95.

    Raises:
        MissingError: `evaluate` has not run.
    """
    right = store.require(results / PRETRAINED / "right.parquet", made_by="evaluate")
    rows = _right(store.read_table(right).to_pylist())
    names = judged_soups(list(soups))
    compared = [
        (name, over, role, compare_images(_of(soup, roles, role), _of(rival, roles, role)))
        for name in names
        for over, soup, rival in _pairs(name, soups=soups, rows=rows)
        for role in MEANS
        if role in roles.values()
    ]
    fixed = judge([comparison.fixed for *_, comparison in compared], confidence=confidence)
    estimates = [comparison.resampled for *_, comparison in compared if comparison.resampled]
    resampled = iter(judge(estimates, confidence=confidence))
    judged = [
        Judged(
            name,
            over,
            role,
            fixed=verdict,
            resampled=next(resampled) if comparison.resampled else None,
            hangs_on=None if verdict.word == "noise" else comparison.hangs_on(verdict.level),
        )
        for (name, over, role, comparison), verdict in zip(compared, fixed, strict=True)
    ]
    counts = store.read_table(store.require(right.with_name("selection.parquet"), made_by="evaluate")).to_pylist()
    source = next(name for name, role in roles.items() if role == "source")
    optimism = tuple(_optimism(name, counts=counts, rows=rows, source=source) for name in names)
    return Judgement(tuple(_without_empty_praise(judged)), optimism, confidence)


def _without_empty_praise(comparisons: Sequence[Judged]) -> Iterator[Judged]:
    """Comparisons with `NO_GAIN` for better, where the same soup is not better than the class name on the same role."""
    gains = {(judged.soup, judged.role): judged for judged in comparisons if judged.over == "class_name"}
    for judged in comparisons:
        gain = gains[judged.soup, judged.role]
        resampled = judged.resampled and gain.resampled and _honest(judged.resampled, gain=gain.resampled)
        yield replace(judged, fixed=_honest(judged.fixed, gain=gain.fixed), resampled=resampled)


def _honest(verdict: Verdict, *, gain: Verdict) -> Verdict:
    empty = verdict.word == "better" and gain.word != "better"
    return replace(verdict, word=NO_GAIN) if empty else verdict


def _right(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Right]:
    """(method, mode) -> which images are right, seeds in order."""
    by_row: dict[tuple[str, str], dict[str, list[np.ndarray]]] = {}
    for line in sorted(lines, key=lambda line: line["seed"]):
        by_dataset = by_row.setdefault((line["method"], line["mode"]), {})
        by_dataset.setdefault(line["dataset"], []).append(unpack_right(line["right"], n_images=line["n_images"]))
    return {row: {name: np.stack(seeds) for name, seeds in datasets.items()} for row, datasets in by_row.items()}


def _of(row: Right, roles: Mapping[str, str], role: str) -> Right:
    return {name: right for name, right in row.items() if roles[name] == role}


def _pairs(
    name: str, *, soups: Mapping[str, SoupParams], rows: Mapping[tuple[str, str], Right]
) -> Iterator[tuple[str, Right, Right]]:
    """What a soup is held against: (key of `OVER`, the soup's images, the rival's)."""
    mode, pool = judged_row(name).mode, soups[name].pool
    sample = next((other for other, soup in soups.items() if soup.kind == "sample" and soup.pool == pool), None)
    rivals = {"class_name": CLASS_NAME.name, "random": random_beside(name)}
    rivals |= {"sample": f"{sample}_soup"} if sample not in (None, name) else {}
    rivals |= {"word": "word_soup"} if name != "word" and "word" in soups else {}
    for over, rival in rivals.items():
        yield over, rows[f"{name}_soup", mode], rows[rival, mode]


def _optimism(
    name: str, *, counts: Sequence[Mapping[str, Any]], rows: Mapping[tuple[str, str], Right], source: str
) -> Optimism:
    mode = judged_row(name).mode

    def seen(method: str) -> float:
        lines = [line for line in counts if line["method"] == method and line["mode"] == mode]
        return float(np.mean([100.0 * line["n_correct"] / line["n_images"] for line in lines]))

    def held_out(method: str) -> float:
        return 100.0 * float(rows[method, mode][source].mean())

    soup, plain = f"{name}_soup", CLASS_NAME.name
    return Optimism(name, seen(soup), held_out(soup), seen(plain), held_out(plain))


# ------------------------------------------------------------------------------------------------------- showing


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
            "difference, class name only": one.name_selection - one.name_held_out,
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
        if judged.fixed.word != "noise" and judged.resampled is not None and judged.resampled.word == "noise":
            text += " (on these datasets; not beyond them)"
        text += f" (hangs on {judged.hangs_on})" if judged.hangs_on else ""
        by_soup.setdefault(soup_title(judged.soup), []).append(text)
    return ", ".join(f"{title} {' and '.join(texts)}" for title, texts in by_soup.items())
