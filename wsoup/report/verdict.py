"""Is a soup better than its rivals by more than noise? As a table, metrics and data of a figure.

`wsoup.statistics.noise` decides, image by image.

A run asks about one soup, named in params.yaml before anything is seen (``report.soup``). It is judged as it is handed
out, all seeds together and in the mode asked for, against the class name alone and the 80 templates, on the source's
test images and on all targets together. These comparisons are not corrected for others.

In addition, every soup is compared, seed by seed, with the class name alone, the 80 templates, as many random texts
from its pool, a soup of kind `sample` from that pool, and Algorithm 2 (the soup `word`), on the source, XD and DG.
These comparisons are corrected together (Holm); those with datasets resampled are a family of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED
from wsoup.evaluate.bits import FILE, Right, right_by_row
from wsoup.evaluate.params import ReportParams
from wsoup.evaluate.rows import CLASS_NAME, ENSEMBLE, all_seeds, judged_mode, judged_soups, random_beside
from wsoup.report.labels import soup_title
from wsoup.report.results import PLACES
from wsoup.report.tables import Table
from wsoup.search.grow.params import SoupParams
from wsoup.statistics.noise import Comparison, Estimate, Verdict, compare_images, judge

RIVALS = {
    "class_name": "class name only",
    "ensemble": "80 prompt templates",
    "random": "random texts of the same m",
    "sample": "a sample of the ranking",
    "word": "Algorithm 2 (word soup)",
}
"""What soups are compared with: key in metrics.json -> name in tables."""
NO_GAIN = "no gain"
"""Replaces better where a soup beats other texts, but neither beats the class name."""
ALL_SEEDS = ", all seeds"
"""Follows the title of the run's soup where its seeds are used together."""


@dataclass(frozen=True)
class SoupVerdict:
    """One soup against one rival.

    Attributes:
        soup: name in params.yaml.
        rival: class_name, ensemble, random, sample or word.
        role: source, xd or dg.
        fixed: the verdict with datasets held fixed; its word may also be `NO_GAIN`.
        resampled: the same with datasets resampled; None for a single dataset.
        hangs_on: the one dataset without which `fixed` would be noise or change sign; None if there is none.
    """

    soup: str
    rival: str
    role: str
    fixed: Verdict
    resampled: Verdict | None
    hangs_on: str | None


@dataclass(frozen=True)
class Optimism:
    """How much better a soup looks on the images that selected it than on held-out images of the source.

    Attributes:
        soup: name in params.yaml.
        selection, held_out: its accuracy on either, per cent, means over seeds.
        name_loss: difference of the two for the class name alone, which selected nothing.
    """

    soup: str
    selection: float
    held_out: float
    name_loss: float

    @property
    def excess(self) -> float:
        """How much more the soup loses than the class name."""
        return (self.selection - self.held_out) - self.name_loss


@dataclass(frozen=True)
class MainVerdict:
    """The run's soup, all seeds together, on the source or on all targets.

    Attributes:
        datasets: names.
        accuracy: per cent, the mean over datasets.
        rival_accuracy: the same for class_name, and for ensemble if it was evaluated.
        over: the verdict over each of these, not corrected for other comparisons.
        hangs_on: see `SoupVerdict`, over the class name.
    """

    datasets: tuple[str, ...]
    accuracy: float
    rival_accuracy: Mapping[str, float]
    over: Mapping[str, Verdict]
    hangs_on: str | None


@dataclass(frozen=True)
class Judgement:
    """All verdicts of a run.

    Attributes:
        soup: the one that the run is about.
        mode: in which it is judged.
        source, targets: its verdicts; targets is None for a run without any.
        comparisons: of every soup, in the order of soups, rivals and roles.
        optimism: of each soup.
        confidence: of all intervals.
    """

    soup: str
    mode: str
    source: MainVerdict
    targets: MainVerdict | None
    comparisons: tuple[SoupVerdict, ...]
    optimism: tuple[Optimism, ...]
    confidence: float

    @property
    def main(self) -> list[MainVerdict]:
        """The run's soup on the source and, if there are any, on targets."""
        return [self.source, *([self.targets] if self.targets else [])]


def load_judgement(
    results: Path, *, soups: Mapping[str, SoupParams], roles: Mapping[str, str], report: ReportParams
) -> Judgement:
    """Judge every soup from what stage `evaluate` stored.

    Args:
        results: folder of counts.
        soups: definitions by name.
        roles: role of each dataset.
        report: which soup the run is about, the mode, and the confidence of intervals.

    Raises:
        MissingError: `evaluate` has not run.
    """
    path = store.require(results / PRETRAINED / FILE, made_by="evaluate")
    images = right_by_row(store.read_table(path).to_pylist())
    selection = store.read_table(store.require(path.with_name("selection.parquet"), made_by="evaluate")).to_pylist()
    modes = {name: judged_mode(name, mode=report.mode) for name in judged_soups(list(soups))}
    rows = {name: {method: right for (method, m), right in images.items() if m == mode} for name, mode in modes.items()}
    compared = {
        (name, rival, role): compare_images(
            _of_role(right[f"{name}_soup"], roles, role), _of_role(right[method], roles, role)
        )
        for name, right in rows.items()
        for rival, method in _rivals(name, soups=soups, rows=right).items()
        for role in PLACES
        if role in roles.values()
    }
    fixed = _verdicts({key: each.fixed for key, each in compared.items()}, confidence=report.confidence)
    resampled = _verdicts(
        {key: each.resampled for key, each in compared.items() if each.resampled}, confidence=report.confidence
    )
    source = next(name for name, role in roles.items() if role == "source")
    targets = [name for name in roles if name != source]
    main_verdict = partial(_main_verdict, report.soup, rows=rows[report.soup], confidence=report.confidence)
    return Judgement(
        report.soup,
        modes[report.soup],
        source=main_verdict([source]),
        targets=main_verdict(targets) if targets else None,
        comparisons=tuple(
            SoupVerdict(*key, fixed[key], resampled.get(key), _hangs_on(each, fixed[key]))
            for key, each in compared.items()
        ),
        optimism=tuple(
            _optimism(name, [line for line in selection if line["mode"] == mode], rows=rows[name], source=source)
            for name, mode in modes.items()
        ),
        confidence=report.confidence,
    )


def _main_verdict(soup: str, datasets: Sequence[str], *, rows: Mapping[str, Right], confidence: float) -> MainVerdict:
    """Of the run's soup on some datasets; `rows` are those of its mode, by method."""
    methods = (all_seeds(soup), CLASS_NAME.name, ENSEMBLE.name)
    right = {method: {name: rows[method][name] for name in datasets} for method in methods if method in rows}
    accuracy = {
        method: float(np.mean([100.0 * of_dataset.mean() for of_dataset in by_dataset.values()]))
        for method, by_dataset in right.items()
    }
    soup_right, soup_accuracy = right.pop(all_seeds(soup)), accuracy.pop(all_seeds(soup))
    compared = {rival: compare_images(soup_right, rival_right) for rival, rival_right in right.items()}
    over = {rival: judge([each.fixed], confidence=confidence)[0] for rival, each in compared.items()}
    hangs_on = _hangs_on(compared[CLASS_NAME.name], over[CLASS_NAME.name])
    return MainVerdict(tuple(datasets), soup_accuracy, accuracy, over, hangs_on)


def _hangs_on(comparison: Comparison, verdict: Verdict) -> str | None:
    return comparison.hangs_on(verdict.level) if verdict.sure else None


def _verdicts(
    estimates: Mapping[tuple[str, str, str], Estimate], *, confidence: float
) -> dict[tuple[str, str, str], Verdict]:
    """Verdicts by soup, rival and role, corrected together, with `NO_GAIN`."""
    verdicts = dict(zip(estimates, judge(list(estimates.values()), confidence=confidence), strict=True))
    return {
        (name, rival, role): replace(verdict, word=NO_GAIN)
        if verdict.word == "better" and verdicts[name, CLASS_NAME.name, role].word != "better"
        else verdict
        for (name, rival, role), verdict in verdicts.items()
    }


def _of_role(row: Right, roles: Mapping[str, str], role: str) -> Right:
    return {name: right for name, right in row.items() if roles[name] == role}


def _rivals(name: str, *, soups: Mapping[str, SoupParams], rows: Mapping[str, Right]) -> dict[str, str]:
    """Rival -> its method, of every rival that a soup has."""
    pool = soups[name].pool
    sample = next((other for other, soup in soups.items() if soup.kind == "sample" and soup.pool == pool), None)
    rivals = {
        "class_name": CLASS_NAME.name,
        "ensemble": ENSEMBLE.name if ENSEMBLE.name in rows else None,
        "random": random_beside(name),
        "sample": None if sample in (None, name) else f"{sample}_soup",
        "word": "word_soup" if name != "word" and "word" in soups else None,
    }
    return {rival: method for rival, method in rivals.items() if method is not None}


def _optimism(name: str, selection: Sequence[Mapping[str, Any]], *, rows: Mapping[str, Right], source: str) -> Optimism:
    """From counts on the selection's images and right images, both in the soup's mode."""
    selected, held_out = {}, {}
    for method in (f"{name}_soup", CLASS_NAME.name):
        counts = [line for line in selection if line["method"] == method]
        selected[method] = float(np.mean([100.0 * line["n_correct"] / line["n_images"] for line in counts]))
        held_out[method] = 100.0 * float(rows[method][source].mean())
    name_loss = selected[CLASS_NAME.name] - held_out[CLASS_NAME.name]
    return Optimism(name, selected[f"{name}_soup"], held_out[f"{name}_soup"], name_loss)


# ------------------------------------------------------------------------------------------ tables and metrics


def verdict_table(judgement: Judgement) -> Table:
    """The run's main verdicts, then every comparison: gain, intervals, p values."""
    title = soup_title(judgement.soup)
    rows = [
        {"soup": title + ALL_SEEDS, "over": RIVALS[rival], "on": on, **_cells(verdict)}
        | {"hangs on": main.hangs_on or "" if rival == CLASS_NAME.name else ""}
        for on, main in zip(("source", "all targets"), judgement.main, strict=False)
        for rival, verdict in main.over.items()
    ]
    for each in judgement.comparisons:
        row: dict[str, Any] = {"soup": soup_title(each.soup), "over": RIVALS[each.rival], "on": PLACES[each.role]}
        row |= {"hangs on": each.hangs_on or "", "is extra": each.rival != CLASS_NAME.name, **_cells(each.fixed)}
        other = {} if each.resampled is None else _cells(each.resampled)
        rows.append(row | {f"{column}, other datasets": value for column, value in other.items()})
    columns = ["soup", "over", "on", "gain", "low", "high", "verdict", "p", "hangs on"]
    columns += ["low, other datasets", "high, other datasets", "verdict, other datasets"]
    return Table(
        "verdict",
        "Is it more than noise?",
        columns=columns,
        rows=rows,
        notes=[
            f"Gain in points with its {judgement.confidence:.0%} interval (low to high) over images and seeds, "
            "datasets held fixed: what other images of these datasets would give.",
            "Other datasets: the same with datasets resampled, which is what other datasets of this kind would give.",
            f"All seeds: the {title} that this run is about (report.soup), as it is handed out, with the members of "
            "all seeds together. It was named before anything was seen: its p is not corrected for other comparisons.",
            "All other lines are means over seeds; their p and intervals are corrected (Holm) for these "
            f"{len(judgement.comparisons)} comparisons.",
            f"The verdict goes by p. The {title} is judged as a {judgement.mode.replace('_', ' ')}.",
            "Source: its test images. XD: datasets with other classes. DG: the source's classes in other styles.",
            "Hangs on: the one dataset without which the verdict would be noise or the gain would change sign.",
            f"{NO_GAIN}: better than its rival, but not better than the class name only.",
        ],
    )


def _cells(verdict: Verdict) -> dict[str, Any]:
    return {"gain": verdict.mean, "low": verdict.low, "high": verdict.high, "p": verdict.p, "verdict": verdict.word}


def optimism_table(judgement: Judgement) -> Table:
    """Accuracy on the images that selected a soup and on others."""
    rows = [
        {
            "soup": soup_title(each.soup),
            "selection images": each.selection,
            "held-out images": each.held_out,
            "difference": each.selection - each.held_out,
            "difference, class name only": each.name_loss,
            "optimism": each.excess,
        }
        for each in judgement.optimism
    ]
    return Table(
        "optimism",
        "The selection's own optimism",
        columns=[
            "soup",
            "selection images",
            "held-out images",
            "difference",
            "difference, class name only",
            "optimism",
        ],
        rows=rows,
        notes=[
            "Per cent on the source, means over seeds. Optimism is the first difference minus that of the class name "
            "alone, which selected nothing: the part of a gain on the selection images that is due to selection itself."
        ],
    )


def verdict_metrics(judgement: Judgement) -> dict[str, Any]:
    """Key ``verdict`` of metrics.json: ``all_seeds`` or a soup -> over_<rival> -> source, xd, dg or targets -> figures.

    A soup also has its optimism.
    """
    metrics: dict[str, Any] = {"all_seeds": {"soup": judgement.soup, "mode": judgement.mode}}
    for on, main in zip(("source", "targets"), judgement.main, strict=False):
        for rival, verdict in main.over.items():
            hangs_on = main.hangs_on if rival == CLASS_NAME.name else None
            accuracies = {"accuracy": round(main.accuracy, 3), "rival": round(main.rival_accuracy[rival], 3)}
            metrics["all_seeds"].setdefault(f"over_{rival}", {})[on] = accuracies | _rounded(verdict, hangs_on=hangs_on)
    for each in judgement.comparisons:
        figures = _rounded(each.fixed, hangs_on=each.hangs_on)
        if each.resampled is not None:
            figures["other_datasets"] = _rounded(each.resampled)
        metrics.setdefault(f"{each.soup}_soup", {}).setdefault(f"over_{each.rival}", {})[each.role] = figures
    for one in judgement.optimism:
        optimism = {"selection": one.selection, "held_out": one.held_out, "excess_over_class_name": one.excess}
        metrics[f"{one.soup}_soup"]["optimism"] = {key: round(value, 3) for key, value in optimism.items()}
    return metrics


def _rounded(verdict: Verdict, *, hangs_on: str | None = None) -> dict[str, Any]:
    figures = {"gain": verdict.mean, "low": verdict.low, "high": verdict.high}
    rounded = {key: round(value, 3) for key, value in figures.items()}
    about = {"p": float(f"{verdict.p:.3g}"), "verdict": verdict.word}
    return {**rounded, **about, **({"hangs_on": hangs_on} if hangs_on else {})}


def gains(judgement: Judgement) -> list[dict[str, Any]]:
    """Data of the figure: {soup, mean, gain, low, high, verdict}, the gain over the class name alone."""
    return [
        {"soup": soup_title(each.soup), "mean": PLACES[each.role]}
        | {key: value for key, value in _rounded(each.fixed).items() if key in ("gain", "low", "high", "verdict")}
        for each in judgement.comparisons
        if each.rival == CLASS_NAME.name
    ]
