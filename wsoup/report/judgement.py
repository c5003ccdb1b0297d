"""The verdict on each soup of a run: are its gains more than noise? `wsoup.statistics.noise` decides, image by image.

The run's question is one soup, named in params.yaml before anything is seen (``report.soup``). It is judged as it is
handed out, all seeds together and in the mode that is asked for, against the class name alone and the 80 templates, on
the source's test images and on all targets together. These comparisons need no correction for others.

All else is beside that question. Every soup, its seeds apart, is held against the class name alone, the 80 templates,
as many random texts from its own pool, a soup of kind `sample` from that pool, and Algorithm 2 (the soup `word`), on
the source, on XD and on DG. These are corrected together (Holm): those with datasets held fixed, and those with
datasets resampled, each among themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import PRETRAINED
from wsoup.evaluate.bits import FILE, Right, right_by_row
from wsoup.evaluate.params import ReportParams
from wsoup.evaluate.rows import CLASS_NAME, ENSEMBLE, all_seeds, judged_mode, judged_soups, random_beside
from wsoup.report.means import PLACES
from wsoup.search.grow.params import SoupParams
from wsoup.statistics.noise import Estimate, Verdict, compare_images, judge

NO_GAIN = "no gain"
"""Instead of better, where a soup beats other texts and neither beats the class name."""


@dataclass(frozen=True)
class Judged:
    """One soup against one rival.

    Attributes:
        soup: name in params.yaml.
        over: the rival: class_name, ensemble, random, sample or word.
        role: source, xd or dg.
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
    """How much better a soup looks on the images that selected it than on held-out images of the source.

    Attributes:
        soup: name in params.yaml.
        selection, held_out: its accuracy on either, per cent, means over seeds.
        name_loss: what the class name alone, which selected nothing, loses from the ones to the others.
    """

    soup: str
    selection: float
    held_out: float
    name_loss: float

    @property
    def excess(self) -> float:
        """How much more the soup loses."""
        return (self.selection - self.held_out) - self.name_loss


@dataclass(frozen=True)
class Asked:
    """The soup that the run is about, all seeds together, on the source or on all targets.

    Attributes:
        datasets: names.
        soup: its accuracy, per cent, the mean over datasets.
        rivals: the same of class_name, and of ensemble where that was evaluated.
        over: the verdict over each of these, not corrected for others.
        hangs_on: see `Judged`, over the class name.
    """

    datasets: tuple[str, ...]
    soup: float
    rivals: Mapping[str, float]
    over: Mapping[str, Verdict]
    hangs_on: str | None


@dataclass(frozen=True)
class Judgement:
    """All that is said of a run.

    Attributes:
        soup: the one that the run is about.
        mode: in which it is judged.
        source, targets: what is said of it there; targets is None where there are none.
        comparisons: of every soup, in the order of soups, rivals and roles.
        optimism: of each soup.
        confidence: of all intervals.
    """

    soup: str
    mode: str
    source: Asked
    targets: Asked | None
    comparisons: tuple[Judged, ...]
    optimism: tuple[Optimism, ...]
    confidence: float

    @property
    def asked(self) -> list[Asked]:
        """What is said of the run's soup, wherever there are images."""
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
    right = store.require(results / PRETRAINED / FILE, made_by="evaluate")
    rows = right_by_row(store.read_table(right).to_pylist())
    names, confidence = judged_soups(list(soups)), report.confidence
    modes = {name: judged_mode(name, mode=report.mode) for name in names}
    compared = {
        (name, over, role): compare_images(_of(soup, roles, role), _of(rival, roles, role))
        for name in names
        for over, soup, rival in _pairs(name, mode=modes[name], soups=soups, rows=rows)
        for role in PLACES
        if role in roles.values()
    }
    fixed = _verdicts({key: each.fixed for key, each in compared.items()}, confidence=confidence)
    estimates = {key: each.resampled for key, each in compared.items() if each.resampled}
    resampled = _verdicts(estimates, confidence=confidence)
    judged = [
        Judged(*key, fixed[key], resampled.get(key), each.hangs_on(fixed[key].level) if fixed[key].sure else None)
        for key, each in compared.items()
    ]
    counts = store.read_table(store.require(right.with_name("selection.parquet"), made_by="evaluate")).to_pylist()
    source = next(name for name, role in roles.items() if role == "source")
    optimism = tuple(_optimism(name, mode=modes[name], counts=counts, rows=rows, source=source) for name in names)
    mode, targets = modes[report.soup], [name for name in roles if name != source]
    asked = partial(_asked, report.soup, mode=mode, rows=rows, confidence=confidence)
    on_targets = asked(targets) if targets else None
    return Judgement(report.soup, mode, asked([source]), on_targets, tuple(judged), optimism, confidence)


def _asked(
    soup: str,
    datasets: Sequence[str],
    *,
    mode: str,
    rows: Mapping[tuple[str, str], Right],
    confidence: float,
) -> Asked:
    def on(method: str) -> Right:
        return {name: rows[method, mode][name] for name in datasets}

    def per_cent(method: str) -> float:
        return float(np.mean([100.0 * right.mean() for right in on(method).values()]))

    rivals = [method.name for method in (CLASS_NAME, ENSEMBLE) if (method.name, mode) in rows]
    compared = {rival: compare_images(on(all_seeds(soup)), on(rival)) for rival in rivals}
    over = {rival: judge([each.fixed], confidence=confidence)[0] for rival, each in compared.items()}
    name = CLASS_NAME.name
    hangs_on = compared[name].hangs_on(over[name].level) if over[name].sure else None
    return Asked(tuple(datasets), per_cent(all_seeds(soup)), {x: per_cent(x) for x in rivals}, over, hangs_on)


def _verdicts(
    estimates: Mapping[tuple[str, str, str], Estimate], *, confidence: float
) -> dict[tuple[str, str, str], Verdict]:
    """Verdicts by soup, rival and role, corrected together; with `NO_GAIN`."""
    verdicts = dict(zip(estimates, judge(list(estimates.values()), confidence=confidence), strict=True))
    empty = {
        (name, over, role)
        for (name, over, role), verdict in verdicts.items()
        if verdict.word == "better" and verdicts[name, "class_name", role].word != "better"
    }
    return {key: replace(verdict, word=NO_GAIN) if key in empty else verdict for key, verdict in verdicts.items()}


def _of(row: Right, roles: Mapping[str, str], role: str) -> Right:
    return {name: right for name, right in row.items() if roles[name] == role}


def _pairs(
    name: str, *, mode: str, soups: Mapping[str, SoupParams], rows: Mapping[tuple[str, str], Right]
) -> Iterator[tuple[str, Right, Right]]:
    """What a soup is held against: (rival, the soup's images, the rival's)."""
    pool = soups[name].pool
    sample = next((other for other, soup in soups.items() if soup.kind == "sample" and soup.pool == pool), None)
    rivals = {
        "class_name": CLASS_NAME.name,
        "ensemble": ENSEMBLE.name if (ENSEMBLE.name, mode) in rows else None,
        "random": random_beside(name),
        "sample": None if sample in (None, name) else f"{sample}_soup",
        "word": "word_soup" if name != "word" and "word" in soups else None,
    }
    for over, rival in rivals.items():
        if rival is not None:
            yield over, rows[f"{name}_soup", mode], rows[rival, mode]


def _optimism(
    name: str, *, mode: str, counts: Sequence[Mapping[str, Any]], rows: Mapping[tuple[str, str], Right], source: str
) -> Optimism:
    def seen_and_held_out(method: str) -> tuple[float, float]:
        lines = [line for line in counts if line["method"] == method and line["mode"] == mode]
        seen = float(np.mean([100.0 * line["n_correct"] / line["n_images"] for line in lines]))
        return seen, 100.0 * float(rows[method, mode][source].mean())

    name_selection, name_held_out = seen_and_held_out(CLASS_NAME.name)
    return Optimism(name, *seen_and_held_out(f"{name}_soup"), name_selection - name_held_out)
