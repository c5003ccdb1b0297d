"""The verdict on each soup of a run: whether its gains are more than noise (`wsoup.report.verdict` has the statistics).

A soup is held against the class name alone, against as many random texts from its own pool, against a soup of kind
`sample` from that pool, and against Algorithm 2 (the soup `word`), in the mode that cards show, on XD and on DG. All
comparisons of a run are corrected together (Holm), those with datasets held fixed and those with datasets resampled
each among themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED
from wsoup.evaluate.bits import unpack_right
from wsoup.evaluate.rows import CLASS_NAME, judged_row, judged_soups, random_beside, soup_title
from wsoup.report.means import MEANS
from wsoup.report.tables import Table
from wsoup.report.verdict import Comparison, Estimate, compare, holm
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


@dataclass(frozen=True)
class Judged:
    """One comparison with its corrected p values.

    Attributes:
        soup: name in params.yaml.
        over: key of `OVER`.
        role: xd or dg.
        comparison: estimates, datasets held fixed and resampled.
        p_fixed, p_resampled: Holm's; None with a single dataset.
    """

    soup: str
    over: str
    role: str
    comparison: Comparison
    p_fixed: float
    p_resampled: float | None


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

    def word(self, p: float | None, mean: float) -> str:
        """better, worse or noise; nothing where there is no p value."""
        if p is None:
            return ""
        return "noise" if p > 1 - self.confidence else "better" if mean > 0 else "worse"


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
    found = [
        (name, over, role, compare(_of(mine, roles, role), _of(theirs, roles, role)))
        for name in names
        for over, mine, theirs in _pairs(name, soups=soups, rows=rows)
        for role in MEANS
        if role in roles.values()
    ]
    fixed = holm([comparison.fixed.p_value for *_, comparison in found])
    several = [i for i, (*_, comparison) in enumerate(found) if comparison.resampled is not None]
    resampled = dict(zip(several, holm([_resampled(found[i][3]).p_value for i in several]), strict=True))
    judged = tuple(Judged(*found[i], p_fixed=fixed[i], p_resampled=resampled.get(i)) for i in range(len(found)))
    counts = store.read_table(store.require(right.with_name("selection.parquet"), made_by="evaluate")).to_pylist()
    source = next(name for name, role in roles.items() if role == "source")
    optimism = tuple(_optimism(name, counts=counts, rows=rows, source=source) for name in names)
    return Judgement(judged, optimism, confidence)


def _resampled(comparison: Comparison) -> Estimate:
    assert comparison.resampled is not None
    return comparison.resampled


def _right(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Right]:
    """(method, mode) -> which images are right, seeds in order."""
    found: dict[tuple[str, str], dict[str, list[tuple[int, np.ndarray]]]] = {}
    for line in lines:
        bits = unpack_right(line["right"], n_images=line["n_images"])
        by_dataset = found.setdefault((line["method"], line["mode"]), {})
        by_dataset.setdefault(line["dataset"], []).append((line["seed"], bits))
    return {
        row: {name: np.stack([bits for _, bits in sorted(seeds, key=lambda s: s[0])]) for name, seeds in of.items()}
        for row, of in found.items()
    }


def _of(row: Right, roles: Mapping[str, str], role: str) -> Right:
    return {name: right for name, right in row.items() if roles[name] == role}


def _pairs(
    name: str, *, soups: Mapping[str, SoupParams], rows: Mapping[tuple[str, str], Right]
) -> Iterator[tuple[str, Right, Right]]:
    """What a soup is held against: (key of `OVER`, the soup's images, the others')."""
    mode, pool = judged_row(name).mode, soups[name].pool
    mine = rows[f"{name}_soup", mode]
    yield "class_name", mine, rows[CLASS_NAME.name, mode]
    yield "random", mine, rows[random_beside(name), mode]
    sample = next((other for other, soup in soups.items() if soup.kind == "sample" and soup.pool == pool), name)
    if sample != name:
        yield "sample", mine, rows[f"{sample}_soup", mode]
    if name != "word" and "word" in soups:
        yield "word", mine, rows["word_soup", mode]


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
        fixed, resampled = judged.comparison.fixed, judged.comparison.resampled
        low, high = fixed.interval(judgement.confidence)
        line: dict[str, Any] = {"soup": soup_title(judged.soup), "over": OVER[judged.over], "role": judged.role.upper()}
        line |= {"gain": fixed.mean, "low": low, "high": high, "p": judged.p_fixed}
        line |= {"verdict": judgement.word(judged.p_fixed, fixed.mean)}
        line["smallest visible"] = fixed.smallest_visible(judgement.confidence)
        if resampled is not None:
            wide_low, wide_high = resampled.interval(judgement.confidence)
            line |= {"low, other datasets": wide_low, "high, other datasets": wide_high}
            line["verdict, other datasets"] = judgement.word(judged.p_resampled, resampled.mean)
        lines.append(line)
    columns = ["soup", "over", "role", "gain", "low", "high", "p", "verdict", "smallest visible"]
    columns += ["low, other datasets", "high, other datasets", "verdict, other datasets"]
    notes = [
        f"Points; low to high is the {judgement.confidence:.0%} interval over images and seeds, datasets held fixed: "
        "what other images of these datasets would give.",
        "Other datasets: the same with datasets resampled, which is what other datasets of this sort would give.",
        f"p is Holm's, over the {len(lines)} comparisons of this table; the verdict goes by it.",
        "Smallest visible: the true difference that a run of this size would call more than noise in 80 % of cases.",
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
    found: dict[str, Any] = {}
    for judged in judgement.comparisons:
        entry: dict[str, Any] = _figures(judgement, judged.comparison.fixed, p=judged.p_fixed)
        if judged.comparison.resampled is not None:
            entry["other_datasets"] = _figures(judgement, judged.comparison.resampled, p=judged.p_resampled)
        soup = found.setdefault(f"{judged.soup}_soup", {})
        soup.setdefault(f"over_{judged.over}", {})[judged.role] = entry
    for one in judgement.optimism:
        figures = {"selection": one.selection, "held_out": one.held_out, "excess_over_class_name": one.excess}
        found.setdefault(f"{one.soup}_soup", {})["optimism"] = {key: round(v, 3) for key, v in figures.items()}
    return found


def _figures(judgement: Judgement, estimate: Estimate, *, p: float | None) -> dict[str, Any]:
    low, high = estimate.interval(judgement.confidence)
    smallest = estimate.smallest_visible(judgement.confidence)
    figures = {"gain": estimate.mean, "low": low, "high": high, "smallest_visible": smallest}
    rounded = {key: round(value, 3) for key, value in figures.items()}
    return {**rounded, "p": float(f"{p or 0.0:.3g}"), "verdict": judgement.word(p, estimate.mean)}


def gains(judgement: Judgement) -> list[dict[str, Any]]:
    """Data of the figure: {soup, over, mean, gain, low, high, verdict}, the gain over the class name alone."""
    rows = []
    for judged in judgement.comparisons:
        if judged.over == "class_name":
            fixed = judged.comparison.fixed
            low, high = (round(end, 3) for end in fixed.interval(judgement.confidence))
            row = {"soup": soup_title(judged.soup), "mean": MEANS[judged.role], "gain": round(fixed.mean, 3)}
            rows.append({**row, "low": low, "high": high, "verdict": judgement.word(judged.p_fixed, fixed.mean)})
    return rows


def sentence(judgement: Judgement) -> str:
    """What was found over the class name only, in plain words, and over a sample; "" where there is no target."""
    found = [judged for judged in judgement.comparisons if judged.over == "class_name"]
    if not found:
        return ""
    sure = [judged for judged in found if judgement.word(judged.p_fixed, 1.0) != "noise"]
    unsure = [judged for judged in found if judged not in sure]
    smallest = [judged.comparison.fixed.smallest_visible(judgement.confidence) for judged in unsure]
    seen = f"this run could have seen differences from {max(smallest):.2f} points" if smallest else ""
    if not sure:
        said = f"No soup's gain over the class name only is more than noise: {_listed(judgement, unsure)}; {seen}."
    else:
        said = f"More than noise over the class name only: {_listed(judgement, sure)}."
        said += f" No more than noise: {_listed(judgement, unsure)}; {seen}." if unsure else ""
    drawn = [judged for judged in judgement.comparisons if judged.over == "sample"]
    better = [judged for judged in drawn if judgement.word(judged.p_fixed, judged.comparison.fixed.mean) == "better"]
    if better:
        return f"{said} Better than a sample of the ranking by more than noise: {_listed(judgement, better)}."
    return f"{said} No search is better than a sample of the ranking by more than noise." if drawn else said


def _listed(judgement: Judgement, found: Sequence[Judged]) -> str:
    """word soup +2.74 points on XD and +2.48 on DG; ..."""
    by_soup: dict[str, list[str]] = {}
    for judged in found:
        estimate = judged.comparison.fixed
        text = f"{estimate.mean:+.2f} points on {judged.role.upper()}"
        if judgement.word(judged.p_fixed, 1.0) != "noise" and judgement.word(judged.p_resampled, 1.0) == "noise":
            text += " (on these datasets; not beyond them)"
        by_soup.setdefault(judged.soup, []).append(text)
    return ", ".join(f"{soup_title(name)} {' and '.join(texts)}" for name, texts in by_soup.items())
