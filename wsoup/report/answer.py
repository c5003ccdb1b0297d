"""What a run answers: which texts to use on the source, on XD and on DG, and how sure that is.

The answer is about one soup, named in params.yaml before anything is seen (``report.soup``), as it is handed out: all
seeds together, in the mode asked for. Class name, 80 templates, this soup and the first head of params.yaml compete on
the source, on XD and on DG, each by itself; `wsoup.statistics.advice` decides.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wsoup.check.soups import SoupParams
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.params import ReportParams
from wsoup.evaluate.rows import CLASS_NAME, ENSEMBLE, FILE, Right, all_seeds, judged_mode, judged_soups, right_by_row
from wsoup.report.labels import soup_title
from wsoup.report.results import PLACES
from wsoup.report.verdict import SoupVerdict, compare_soups
from wsoup.statistics.advice import HEAD, Advice, advise

WIDTH = 100
"""Columns of the answer."""


@dataclass(frozen=True)
class JudgedRun:
    """The answer of a run, and all its verdicts.

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
    comparisons: Sequence[SoupVerdict]
    right: Right
    confidence: float

    def title(self, name: str) -> str:
        """Title in tables of a row of the answer."""
        if name == self.names["soup"]:
            return f"{soup_title(self.soup)}, all seeds"
        return name


def judge_run(
    results: Path,
    *,
    soups: Mapping[str, SoupParams],
    heads: Sequence[str],
    roles: Mapping[str, str],
    n_classes: Mapping[str, int],
    report: ReportParams,
) -> JudgedRun:
    """Judge every soup from what stages `evaluate` and `head` stored.

    Args:
        results: folder of counts.
        soups, heads: of params.yaml, by name; the first head competes.
        roles, n_classes: role and number of classes of each dataset.
        report: which soup the run is about, the mode, and the confidence of intervals.

    Raises:
        MissingError: a stage has not run.
    """
    images = read_right(results / PRETRAINED / FILE, made_by="evaluate")
    by_soup = {}
    for name in judged_soups(list(soups)):
        mode = judged_mode(name, mode=report.mode)
        by_soup[name] = {method: right for (method, its_mode), right in images.items() if its_mode == mode}
    names = {"class_name": "class name", "templates": "80 templates", "soup": soup_title(report.soup), "head": HEAD}
    methods = {"class_name": CLASS_NAME.name, "templates": ENSEMBLE.name, "soup": all_seeds(report.soup)}
    competing = {names[key]: by_soup[report.soup].get(method, {}) for key, method in methods.items()}
    for head in heads[:1]:
        of_head = read_right(results / "heads" / f"{head}.parquet", made_by=f"head@{head}")
        (competing[HEAD],) = of_head.values()
    places = _datasets_by_role(roles)
    answers = {}
    for role, datasets in places.items():
        # A head is evaluated only where the classes are its own.
        there = {
            name: {dataset: right[dataset] for dataset in datasets}
            for name, right in competing.items()
            if right.keys() >= set(datasets)
        }
        answers[role] = advise(there, n_classes=n_classes, confidence=report.confidence)
    return JudgedRun(
        report.soup,
        judged_mode(report.soup, mode=report.mode),
        names,
        answers,
        compare_soups(by_soup, soups=soups, places=places, confidence=report.confidence),
        right=competing[names["soup"]],
        confidence=report.confidence,
    )


def read_right(path: Path, *, made_by: str) -> dict[tuple[str, str], Right]:
    """Which images rows get right, by method and mode."""
    return right_by_row(store.read_table(store.require(path, made_by=made_by)).to_pylist())


def _datasets_by_role(roles: Mapping[str, str]) -> dict[str, list[str]]:
    """The roles that datasets have, in the order of tables, and their datasets."""
    by_role: dict[str, list[str]] = {}
    for role in PLACES:
        datasets = [name for name, its_role in roles.items() if its_role == role]
        if datasets:
            by_role[role] = datasets
    return by_role


def metrics(judged: JudgedRun) -> dict[str, dict[str, float]]:
    """metrics.json: per cent of the class name, the templates, the run's soup and the head on source, XD and DG."""
    by_key: dict[str, dict[str, float]] = {}
    for key, name in judged.names.items():
        for role, advice in judged.answers.items():
            if name in advice.accuracy:
                by_key.setdefault(key, {})[role] = round(advice.accuracy[name], 2)
    return by_key


def answer_lines(judged: JudgedRun) -> list[str]:
    """At most 12 lines: for source, XD and DG which row to use and why, then the accuracies of all four."""
    lines = []
    for role, advice in judged.answers.items():
        where = "Test images of the source" if role == "source" else role.upper()
        lines += textwrap.wrap(f"{where}. {advice.sentence}", width=WIDTH, subsequent_indent="    ")
    header = [PLACES[role] for role in judged.answers]
    lines.append(_line("per cent", header))
    for name in judged.names.values():
        cells = []
        for advice in judged.answers.values():
            accuracy = advice.accuracy.get(name)
            cells.append("" if accuracy is None else f"{accuracy:.2f}")
        if any(cells):
            lines.append(_line(name, cells))
    return lines


def _line(first: str, cells: Sequence[str]) -> str:
    """A line of the table under the answer."""
    return f"{first[:23]:<24}" + "".join(f"{cell:>10}" for cell in cells)
