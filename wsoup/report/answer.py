"""What a run answers: what its soup changes on the source, on XD and on DG, what finetuning adds, how far a head gets.

The answer is about one soup and one finetuned method, both named in params.yaml before anything is seen
(``report.soup``, ``report.method``). The soup is judged as it is handed out: all seeds together, in the mode asked for.
Where the question is which classifier to use for such photos (``report.question: photos``), class name, 80 templates,
soup and the first head compete instead, and `wsoup.statistics.advice` decides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.base.errors import MismatchError
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.params import ReportParams
from wsoup.evaluate.right import Right, all_seeds, right_by_row
from wsoup.evaluate.row_key import files_of_right
from wsoup.evaluate.rows import CLASS_NAME, ENSEMBLE, judged_mode, judged_soups, row_name
from wsoup.report.labels import title_in_answer
from wsoup.report.results import PLACES
from wsoup.report.verdict import SoupVerdict, compare_soups
from wsoup.search.grow.all_kinds import SoupParams
from wsoup.statistics.advice import HEAD, advise, not_above_chance
from wsoup.statistics.noise import Verdict, compare_images, judge

SOUP_FIRST = (("soup", "class_name"), ("soup", "templates"))
"""The comparisons that a run about a soup is made for; those of one place are corrected together."""
BESIDE = (
    ("templates", "class_name"),
    ("finetuned", "soup"),
    ("finetuned", "class_name"),
    ("head", "soup"),
    ("head", "class_name"),
)
"""What stands beside them; corrected together, too, so that these do not widen the soup's intervals."""
CLAIM = (("finetuned", "without"),)
"""The paper's claim about finetuning: a method over the same one without soup and diversity loss."""

HEADS = {"means": "class means", "head": HEAD}
"""Rows of heads, the simpler one first, and their names."""


@dataclass(frozen=True)
class PlaceAnswer:
    """What the rows of the answer get on one place: the source, XD or DG.

    Attributes:
        accuracy: row -> per cent, the mean over datasets; without rows that are not evaluated there.
        gains: (row, other row) -> the first over the second.
        chance: per cent, if the place's soup, or best row, is not above it by more than noise; else None.
        advice: which row to use, if that is the question; else None.
        use: that row, as in `accuracy`.
    """

    accuracy: Mapping[str, float]
    gains: Mapping[tuple[str, str], Verdict]
    chance: float | None
    advice: str | None = None
    use: str | None = None


@dataclass(frozen=True)
class RunAnswer:
    """The answer of a run, and all its verdicts.

    Attributes:
        soup: the one that the run is about.
        method: the finetuned method that it is about; None if there is none.
        method_soup: the soup that this method was trained on.
        without: the same method without soup and diversity loss; None if it is not in this run.
        mode: in which the soup is judged.
        names: rows of the answer, in its order: key in metrics.json -> name in sentences.
        answers: by role.
        modes: in which each soup is judged.
        comparisons: of every soup, in the order of soups, rivals and roles.
        right: images that the run's soup gets right, all seeds together.
        confidence: of all intervals.
    """

    soup: str
    method: str | None
    method_soup: str | None
    without: str | None
    mode: str
    names: Mapping[str, str]
    answers: Mapping[str, PlaceAnswer]
    comparisons: Sequence[SoupVerdict]
    modes: Mapping[str, str]
    right: Right
    confidence: float

    def title(self, key: str) -> str:
        """Title in tables of a row of the answer."""
        if key == "soup":
            return f"{self.names[key]}, all seeds"
        return self.names[key]


def judge_run(
    results: Path,
    *,
    soups: Mapping[str, SoupParams],
    methods: Mapping[str, str],
    without: str | None,
    heads: Mapping[str, Mapping[str, Any]],
    roles: Mapping[str, str],
    n_classes: Mapping[str, int],
    report: ReportParams,
) -> RunAnswer:
    """Judge the run's soup and method, and every other soup, from what the stages of evaluation and `head` stored.

    Args:
        results: folder of counts.
        soups: of params.yaml, by name.
        heads: of params.yaml, by name; see `_heads_of_answer`.
        methods: finetuned methods, and the soup that each was trained on.
        without: the run's method without soup and diversity loss (`wsoup.finetune.params.without_soup`).
        roles, n_classes: role and number of classes of each dataset.
        report: which soup and method the run is about, the question, the mode, and the confidence of intervals.

    Raises:
        MissingError: a stage has not run.
        MismatchError: a file of results is not of this version.
    """
    files = files_of_right(results, methods=methods, heads=heads)
    images = read_right(files[PRETRAINED], made_by="evaluate")
    by_soup = {}
    for name in judged_soups(list(soups)):
        by_soup[name] = _in_mode(judged_mode(name, mode=report.mode), images=images)
    title = title_in_answer(report.soup, soup=soups[report.soup])
    names = {"class_name": "class name", "templates": "80 templates", "soup": title}
    of_soup = by_soup[report.soup]
    pretrained = {"class_name": CLASS_NAME.name, "templates": ENSEMBLE.name, "soup": all_seeds(report.soup)}
    # Without the templates (evaluate.ensemble: false) there is one rival less.
    rows = {key: of_soup[method] for key, method in pretrained.items() if method in of_soup}
    method_soup = None
    if report.method is not None:
        method_soup = methods[report.method]
        names["finetuned"] = f"{report.method}, finetuned"
        rows["finetuned"] = _right_of_method(files, report.method, soup=method_soup, report=report)
        if without is not None:
            rows["without"] = _right_of_method(files, without, soup=methods[without], report=report)
    answering = _heads_of_answer(heads)
    for key, head in answering.items():
        of_head = read_right(files[head], made_by=f"head@{head}")
        rows[key] = of_head[row_name(heads[head]["soup"]), "centroid"]
        names[key] = HEADS[key]
    in_turn = _in_turn(files, heads=heads, first=answering.get("head"), report=report)
    places = _datasets_by_role(roles)
    answers = {}
    for role, datasets in places.items():
        there = _rows_on(datasets, rows=rows)
        judged_in_turn = {}
        if role == "source":
            (source,) = datasets
            judged_in_turn = {key: {source: in_turn[key]} for key in there if key in in_turn}
        answers[role] = _answer(there, in_turn=judged_in_turn, names=names, n_classes=n_classes, report=report)
    return RunAnswer(
        soup=report.soup,
        method=report.method,
        method_soup=method_soup,
        without=without,
        mode=judged_mode(report.soup, mode=report.mode),
        names=names,
        answers=answers,
        comparisons=compare_soups(by_soup, soups=soups, places=places, confidence=report.confidence),
        modes={name: judged_mode(name, mode=report.mode) for name in by_soup},
        right=rows["soup"],
        confidence=report.confidence,
    )


def _in_mode(mode: str, *, images: Mapping[tuple[str, str], Right]) -> dict[str, Right]:
    """The rows of one mode, by method: a soup and its rivals are compared in the same mode."""
    return {method: right for (method, its_mode), right in images.items() if its_mode == mode}


def _rows_on(datasets: Sequence[str], *, rows: Mapping[str, Right]) -> dict[str, Right]:
    """The rows that are evaluated on all of some datasets: a head is not where classes are not its own."""
    there = {}
    for key, right in rows.items():
        if right.keys() >= set(datasets):
            there[key] = {dataset: right[dataset] for dataset in datasets}
    return there


def _heads_of_answer(heads: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Row of the answer -> name of its head: class means, and the first other head of params.yaml.

    One head answers for all others, so that none is picked by its test accuracy.
    """
    named: dict[str, str] = {}
    for name, head in heads.items():
        named.setdefault("means" if head["kind"] == "means" else "head", name)
    # The simpler one first.
    return {key: named[key] for key in HEADS if key in named}


def _in_turn(
    files: Mapping[str, Path], *, heads: Mapping[str, Mapping[str, Any]], first: str | None, report: ReportParams
) -> dict[str, np.ndarray]:
    """Shares of right answers of each row on all labelled images, if stage `head` judged them in turn.

    It does where the source has few test images: the texts, and heads like its own. The run's soup is judged, as a
    centroid, beside a head of params.yaml that names it; all heads of a run judge the same images. `first` is the
    head of the answer.
    """
    rows: dict[str, np.ndarray] = {}
    if judged_mode(report.soup, mode=report.mode) != "centroid":
        return rows
    for name, head in heads.items():
        beside = store.table_attributes(files[name])["in_turn"]
        if name == first:
            rows |= {row: np.array(shares) for row, shares in beside.items() if row != "soup"}
        if head["soup"] == report.soup and "soup" in beside:
            rows["soup"] = np.array(beside["soup"])
    # Without the soup, not all rows of the answer could be compared.
    return rows if "soup" in rows else {}


def _answer(
    rows: Mapping[str, Right],
    *,
    in_turn: Mapping[str, Right],
    names: Mapping[str, str],
    n_classes: Mapping[str, int],
    report: ReportParams,
) -> PlaceAnswer:
    """Compare the rows that are evaluated on one place; `in_turn` has rows on all labelled images, or is empty."""
    beside = _judged(BESIDE, rows=rows, confidence=report.confidence)
    beside |= _judged(CLAIM, rows=rows, confidence=report.confidence)
    # A finetuned model does not compete where the question is what to use for photos: training is another effort.
    competing = {names[key]: right for key, right in rows.items() if key not in ("finetuned", "without")}
    in_turn_by_name = {names[key]: right for key, right in in_turn.items()}
    advice = advise(competing, n_classes=n_classes, confidence=report.confidence, in_turn=in_turn_by_name or None)
    accuracy = {key: advice.accuracy[name] for key, name in names.items() if name in advice.accuracy}
    if "finetuned" in rows:
        accuracy["finetuned"] = _accuracy(rows["finetuned"])
    # `try` asks the same of a folder of photos, and gets the same advice.
    if report.question == "photos":
        by_name = {name: key for key, name in names.items()}
        gains = {(by_name[name], "class_name"): gain for name, gain in advice.gains.items()}
        finetuned = {pair: gain for pair, gain in beside.items() if pair[0] == "finetuned"}
        return PlaceAnswer(accuracy, gains | finetuned, chance=None, advice=advice.sentence, use=by_name[advice.use])
    first = _judged(SOUP_FIRST, rows=rows, confidence=report.confidence)
    chance = not_above_chance(rows["soup"], n_classes=n_classes, confidence=report.confidence)
    return PlaceAnswer(accuracy, first | beside, chance=chance)


def _judged(
    pairs: Sequence[tuple[str, str]], *, rows: Mapping[str, Right], confidence: float
) -> dict[tuple[str, str], Verdict]:
    """Those of some comparisons whose rows are there, corrected together."""
    compared = {}
    for pair in pairs:
        row, other = pair
        if row in rows and other in rows:
            compared[pair] = compare_images(rows[row], rows[other]).fixed
    verdicts = judge(list(compared.values()), confidence=confidence)
    return dict(zip(compared, verdicts, strict=True))


def _accuracy(right: Right) -> float:
    """Per cent, the mean over datasets."""
    by_dataset = [100.0 * hits.mean() for hits in right.values()]
    return float(sum(by_dataset) / len(by_dataset))


def _right_of_method(files: Mapping[str, Path], method: str, *, soup: str, report: ReportParams) -> Right:
    """Images that a finetuned method gets right with the texts it was trained on, in the mode of its soup."""
    rows = read_right(files[method], made_by=f"evaluate_tuned@{method}")
    row = (row_name(soup), judged_mode(soup, mode=report.mode))
    if row not in rows:
        raise MismatchError(f"{files[method]} does not say which images {method} gets right; run `dvc repro`")
    return rows[row]


def read_right(path: Path, *, made_by: str) -> dict[tuple[str, str], Right]:
    """Which images rows get right, by method and mode."""
    lines = store.read_table(store.require(path, made_by=made_by))
    return right_by_row(lines.to_pylist())


def _datasets_by_role(roles: Mapping[str, str]) -> dict[str, list[str]]:
    """The roles that datasets have, in the order of tables, and their datasets."""
    by_role: dict[str, list[str]] = {}
    for role in PLACES:
        datasets = [name for name, its_role in roles.items() if its_role == role]
        if datasets:
            by_role[role] = datasets
    return by_role


def metrics(judged: RunAnswer) -> dict[str, dict[str, float]]:
    """metrics.json: per cent of every row of the answer on source, XD and DG; at most 15 numbers."""
    by_key: dict[str, dict[str, float]] = {}
    for key in judged.names:
        for role, answer in judged.answers.items():
            if key in answer.accuracy:
                by_key.setdefault(key, {})[role] = round(answer.accuracy[key], 2)
    return by_key
