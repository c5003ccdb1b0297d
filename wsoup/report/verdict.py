"""What a run answers, and whether each soup is better than its rivals by more than noise.

**The answer** is about one soup, named in params.yaml before anything is seen (``report.soup``), as it is handed out:
all seeds together, in the mode asked for. Class name, 80 templates, this soup and the first head of params.yaml compete
on the source, on XD and on DG, each by itself; `wsoup.statistics.advice` decides.

**The table of verdicts** compares every soup, seed by seed, with the class name alone, the 80 templates, as many random
texts from its pool, a soup of kind `sample` from that pool, and Algorithm 2 (the soup `word`). These comparisons are
corrected together (Holm); those with datasets resampled are a family of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wsoup.check.soups import SoupParams
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.params import ReportParams
from wsoup.evaluate.rows import (
    CLASS_NAME,
    ENSEMBLE,
    FILE,
    Right,
    all_seeds,
    judged_mode,
    judged_soups,
    random_beside,
    right_by_row,
)
from wsoup.report.results import PLACES
from wsoup.report.tables import Table, soup_title
from wsoup.statistics.advice import HEAD, Advice, advise
from wsoup.statistics.noise import Estimate, Verdict, compare_images, judge

RIVALS = {
    "class_name": "class name only",
    "ensemble": "80 prompt templates",
    "random": "random texts of the same m",
    "sample": "a sample of the ranking",
    "word": "Algorithm 2 (word soup)",
}
"""What soups are compared with: key -> name in tables."""
NO_GAIN = "no gain"
"""Replaces better where a soup beats other texts, but neither beats the class name."""
Key = tuple[str, str, str]
"""Soup, rival and role of a comparison."""


@dataclass(frozen=True)
class SoupVerdict:
    """One soup against one rival.

    Attributes:
        soup: name in params.yaml.
        rival: class_name, ensemble, random, sample or word.
        role: source, xd or dg.
        fixed: the verdict with datasets held fixed; its word may also be `NO_GAIN`.
        resampled: the same with datasets resampled; None for a single dataset.
        hangs_on: the one dataset without which `fixed` would be noise or change sign, if there is one.
    """

    soup: str
    rival: str
    role: str
    fixed: Verdict
    resampled: Verdict | None
    hangs_on: str | None


@dataclass(frozen=True)
class Judgement:
    """All verdicts of a run.

    Attributes:
        soup: the one that the run is about.
        mode: in which it is judged.
        names: rows that compete for the answer, the simplest first: key in metrics.json -> name in sentences.
        answers: by role, with these names.
        comparisons: of every soup, in the order of soups, rivals and roles.
        right: images that the run's soup gets right, all seeds together.
        confidence: of all intervals.
    """

    soup: str
    mode: str
    names: Mapping[str, str]
    answers: Mapping[str, Advice]
    comparisons: tuple[SoupVerdict, ...]
    right: Right
    confidence: float


def load_judgement(
    results: Path,
    *,
    soups: Mapping[str, SoupParams],
    heads: Sequence[str],
    roles: Mapping[str, str],
    n_classes: Mapping[str, int],
    report: ReportParams,
) -> Judgement:
    """Judge every soup from what stages `evaluate` and `head` stored.

    Args:
        results: folder of counts.
        soups, heads: of params.yaml, by name; the first head competes.
        roles, n_classes: role and number of classes of each dataset.
        report: which soup the run is about, the mode, and the confidence of intervals.

    Raises:
        MissingError: a stage has not run.
    """
    images = _right(results / PRETRAINED / FILE, made_by="evaluate")
    modes = {name: judged_mode(name, mode=report.mode) for name in judged_soups(list(soups))}
    rows = {name: {method: right for (method, m), right in images.items() if m == mode} for name, mode in modes.items()}
    names = {"class_name": "class name", "templates": "80 templates", "soup": soup_title(report.soup), "head": HEAD}
    methods = {"class_name": CLASS_NAME.name, "templates": ENSEMBLE.name, "soup": all_seeds(report.soup)}
    competing = {names[key]: rows[report.soup].get(method, {}) for key, method in methods.items()}
    for head in heads[:1]:
        (competing[HEAD],) = _right(results / "heads" / f"{head}.parquet", made_by=f"head@{head}").values()
    places = {role: [name for name, its_role in roles.items() if its_role == role] for role in PLACES}
    places = {role: datasets for role, datasets in places.items() if datasets}
    about: dict[str, Any] = {"n_classes": n_classes, "confidence": report.confidence}
    answers = {role: _advice(competing, datasets, **about) for role, datasets in places.items()}
    comparisons = compare_soups(rows, soups=soups, places=places, confidence=report.confidence)
    right = competing[names["soup"]]
    return Judgement(report.soup, modes[report.soup], names, answers, tuple(comparisons), right, report.confidence)


def _right(path: Path, *, made_by: str) -> dict[tuple[str, str], Right]:
    """Which images rows get right, by method and mode."""
    return right_by_row(store.read_table(store.require(path, made_by=made_by)).to_pylist())


def _advice(
    rows: Mapping[str, Right], datasets: Sequence[str], *, n_classes: Mapping[str, int], confidence: float
) -> Advice:
    """Advice on some datasets, between the rows that have all of them."""
    there = {name: {data: row[data] for data in datasets} for name, row in rows.items() if set(datasets) <= set(row)}
    return advise(there, n_classes=n_classes, confidence=confidence)


def metrics(judgement: Judgement) -> dict[str, dict[str, float]]:
    """metrics.json: per cent of the class name, the templates, the run's soup and the head on source, XD and DG."""
    return {
        key: {role: round(each.accuracy[name], 2) for role, each in judgement.answers.items() if name in each.accuracy}
        for key, name in judgement.names.items()
        if any(name in each.accuracy for each in judgement.answers.values())
    }


# --------------------------------------------------------------------------------------------- every soup and rival


def compare_soups(
    rows: Mapping[str, Mapping[str, Right]],
    *,
    soups: Mapping[str, SoupParams],
    places: Mapping[str, Sequence[str]],
    confidence: float,
) -> Iterator[SoupVerdict]:
    """Every soup against every rival on every role; `rows` are by judged soup and method, `places` name datasets."""
    compared = {
        (name, rival, role): compare_images(*({data: row[data] for data in datasets} for row in pair))
        for name, right in rows.items()
        for rival, method in _rivals(name, soups=soups, rows=right).items()
        for pair in [(right[f"{name}_soup"], right[method])]
        for role, datasets in places.items()
    }
    fixed = _verdicts({key: each.fixed for key, each in compared.items()}, confidence=confidence)
    resampled = {key: each.resampled for key, each in compared.items() if each.resampled}
    over_datasets = _verdicts(resampled, confidence=confidence)
    for key, each in compared.items():
        yield SoupVerdict(
            *key, fixed[key], over_datasets.get(key), each.hangs_on(fixed[key].level) if fixed[key].sure else None
        )


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


def _verdicts(estimates: Mapping[Key, Estimate], *, confidence: float) -> dict[Key, Verdict]:
    """Verdicts corrected together, with `NO_GAIN`."""
    verdicts = dict(zip(estimates, judge(list(estimates.values()), confidence=confidence), strict=True))
    return {
        (name, rival, role): replace(verdict, word=NO_GAIN)
        if verdict.word == "better" and verdicts[name, CLASS_NAME.name, role].word != "better"
        else verdict
        for (name, rival, role), verdict in verdicts.items()
    }


def verdict_table(judgement: Judgement) -> Table:
    """The answer's rows, then every comparison: gain, intervals, p values."""
    rows: list[dict[str, object]] = [
        {"soup": title(name, judgement), "over": RIVALS["class_name"], "on": PLACES[role], **_cells(gain)}
        for role, each in judgement.answers.items()
        for name, gain in each.gains.items()
    ]
    for each in judgement.comparisons:
        row = {"soup": soup_title(each.soup), "over": RIVALS[each.rival], "on": PLACES[each.role]}
        other = {} if each.resampled is None else _cells(each.resampled)
        beyond = {f"{column}, other datasets": value for column, value in other.items()}
        rows.append({**row, **_cells(each.fixed), "hangs on": each.hangs_on or "", **beyond})
    columns = ["soup", "over", "on", "gain", "low", "high", "verdict", "p", "hangs on"]
    columns += ["low, other datasets", "high, other datasets", "verdict, other datasets"]
    soup = soup_title(judgement.soup)
    return Table(
        "verdict",
        "Is it more than noise?",
        columns=columns,
        rows=rows,
        notes=[
            f"Gain in points with its {judgement.confidence:.0%} interval (low to high) over images and seeds, "
            "datasets held fixed: what other images of these datasets would give.",
            "Other datasets: the same with datasets resampled, which is what other datasets of this kind would give.",
            f"The first lines are the answer's: the {soup} that this run is about (report.soup), "
            "with the members of all seeds together, the 80 templates and the head; those of one place are corrected "
            "together (Holm).",
            "All other lines are means over seeds; their p and intervals are corrected (Holm) for these "
            f"{len(judgement.comparisons)} comparisons.",
            f"The {soup} is judged as a {judgement.mode.replace('_', ' ')}.",
            "Source: its test images. XD: datasets with other classes. DG: the source's classes in other styles.",
            "Hangs on: the one dataset without which the verdict would be noise or the gain would change sign.",
            f"{NO_GAIN}: better than its rival, but not better than the class name only.",
        ],
    )


def title(name: str, judgement: Judgement) -> str:
    """Title of a row of the answer."""
    return f"{soup_title(judgement.soup)}, all seeds" if name == judgement.names["soup"] else name


def _cells(verdict: Verdict) -> dict[str, object]:
    return {"gain": verdict.mean, "low": verdict.low, "high": verdict.high, "p": verdict.p, "verdict": verdict.word}
