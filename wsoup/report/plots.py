"""Data of the figures as JSON, which ``dvc plots`` and the page draw with the Vega-Lite templates in data/plots.

The templates have the anchor ``<DVC_METRIC_DATA>`` and distinguish revisions by the field ``rev``, which DVC adds to
every row when it compares.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from wsoup.core.modes import JudgedMode
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.rows import CLASS_NAME, CURVE, judged_mode
from wsoup.report.answer import RunAnswer
from wsoup.report.labels import TableRow, soup_label, soup_title
from wsoup.report.results import MEANS, PLACES, Cells, Results
from wsoup.report.tables import TableCells, is_number, mean_and_std
from wsoup.statistics.noise import Verdict

POINTS = 200
"""Points of a sorted curve: more could not be told apart, and the file is kept in git."""


def gains(judged: RunAnswer) -> Sequence[TableCells]:
    """Gains over the class name alone: {row, place, gain, low, high, verdict}.

    The rows of the answer as there (the run's soup with all seeds); every other soup as a mean over seeds.
    """
    points = []
    for role, answer in judged.answers.items():
        for key in judged.names:
            gain = answer.gains.get((key, "class_name"))
            if gain is not None:
                points.append(_gain(judged.title(key), role=role, gain=gain))
    for comparison in judged.comparisons:
        if comparison.rival == CLASS_NAME.name and comparison.soup != judged.soup:
            points.append(_gain(soup_title(comparison.soup), role=comparison.role, gain=comparison.fixed))
    return points


def _gain(row: str, *, role: str, gain: Verdict) -> TableCells:
    return {
        "row": row,
        "place": PLACES[role],
        "gain": round(gain.mean, 3),
        "low": round(gain.low, 3),
        "high": round(gain.high, 3),
        "verdict": gain.word,
    }


def candidates(scores: Mapping[str, Path], *, seed: int) -> Sequence[TableCells]:
    """Accuracy of all candidates on the source's few-shot images, sorted: {pool, rank, accuracy, none}.

    The best candidate has rank 1: the axis is the number of candidates, as in the paper.

    Args:
        scores: pool -> its Parquet of scores; an empty text is the class name without a descriptor.
        seed: which seed's images.
    """
    points: list[TableCells] = []
    for pool, path in scores.items():
        by_text: dict[str, float] = {}
        for line in store.read_table(path).to_pylist():
            if line["seed"] == seed:
                by_text[line["text"]] = 100.0 * line["n_correct"] / line["n_images"]
        class_name = by_text.pop("", None)
        accuracies = sorted(by_text.values(), reverse=True)
        for i in evenly(len(accuracies), at_most=POINTS):
            points.append({"pool": pool, "rank": i + 1, "accuracy": round(accuracies[i], 3), "none": class_name})
    return points


def transfer(path: Path) -> Sequence[TableCells]:
    """Each surveyed descriptor: {text, kind, source, target, correlation}, per cent, targets' mean.

    `correlation` is Pearson's over all descriptors, the same in every row; null where it is not defined.
    """
    on_source: dict[str, float] = {}
    on_targets: dict[str, list[float]] = {}
    for line in store.read_table(path).to_pylist():
        accuracy = 100.0 * line["n_correct"] / line["n_images"]
        if line["role"] == "source":
            on_source[line["text"]] = accuracy
        else:
            on_targets.setdefault(line["text"], []).append(accuracy)
    # A run without targets has no transfer to show.
    means = {text: float(np.mean(on_targets[text])) for text in on_source if text in on_targets}
    descriptors = [text for text in means if text]
    # The class name alone is a point of the figure, but not a descriptor.
    x = [on_source[text] for text in descriptors]
    y = [means[text] for text in descriptors]
    correlation = _correlation(x, y)
    points: list[TableCells] = []
    for text, mean in means.items():
        point: dict[str, object] = {
            "text": _for_script(text) or "(class name only)",
            "kind": "descriptor" if text else "class name only",
            "source": round(on_source[text], 3),
            "target": round(mean, 3),
            "correlation": correlation,
        }
        points.append(point)
    return points


def _for_script(text: str) -> str:
    """A text that cannot end a script element: `dvc plots` writes data into one as they are."""
    return text.replace("<", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}")


def _correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Pearson's; None where a side does not vary, or for two points, through which any line goes."""
    if len(x) < 3 or np.std(x) == 0 or np.std(y) == 0:
        return None
    return round(float(np.corrcoef(x, y)[0, 1]), 4)


def by_size(results: Results, *, mode: JudgedMode) -> Sequence[TableCells]:
    """Accuracy of the pretrained encoder against the number of members: {method, m, mean, accuracy, std}.

    Soups in the mode in which they are judged; `mode` is ``report.mode``. Texts of a single size are a point.
    """
    points: list[TableCells] = []
    for row in results.table:
        soup = row.method.soup
        of_other_mode = soup is not None and row.mode != judged_mode(soup, mode=mode)
        if row.curve is None or of_other_mode:
            continue
        for m, cells in _sizes(results, row).items():
            for role, mean in PLACES.items():
                figures = rounded("accuracy", cells.of(results.datasets(role)))
                if is_number(figures["accuracy"]):
                    points.append({"method": row.curve, "m": m, "mean": mean, **figures})
    return points


def _sizes(results: Results, row: TableRow) -> Mapping[int, Cells] | Mapping[float, Cells]:
    if row.method.sized:
        return results.curve(row.method, mode=row.mode)
    cells = results.cells(PRETRAINED, row)
    if cells is None:
        return {}
    return {round(cells.texts, 1): cells}


def parameters(results: Results, *, trained: Mapping[str, str]) -> Sequence[TableCells]:
    """Accuracy against numbers stored: {method, trained, texts, stored, mean, accuracy}, means over seeds.

    A word soup stores one integer a token, a soft token D floats.

    Args:
        results: the run.
        trained: what each finetuned method trains, and what each head is.
    """
    # Offsets repeat the same members: they store nothing more.
    whole = [row for row in results.table if row.mode == "centroid" and not row.offsets]
    points: list[TableCells] = []
    for row in whole:
        soup = row.method.soup
        if soup is not None:
            for m, cells in results.curve(row.method, mode="centroid").items():
                names = {"method": f"{soup_label(soup)} m={m}", "trained": "nothing", "texts": soup_title(soup)}
                points += _stored(results, cells, names=names, stored=cells.stored or 0.0)
    for variant, n_parameters in results.parameters.items():
        for row in whole:
            tuned = results.cells(variant, row)
            if tuned is not None and _shown_with_tuned(row):
                names = _names_of_tuned(variant, row)
                stored = n_parameters + (tuned.stored or 0.0)
                points += _stored(results, tuned, names=names | {"trained": trained[variant]}, stored=stored)
    return points


def _shown_with_tuned(row: TableRow) -> bool:
    """Whether finetuned models are drawn with these texts: the class name, and soups but the descriptor soup.

    As in the paper.
    """
    if row.method is CLASS_NAME:
        return True
    return row.method.soup not in (None, "descriptor", CURVE)


def _names_of_tuned(variant: str, row: TableRow) -> dict[str, str]:
    soup = row.method.soup
    if soup is None:
        return {"method": variant, "texts": "class name"}
    title = soup_title(soup)
    return {"method": f"{variant} + {title}", "texts": title}


def _stored(results: Results, cells: Cells, *, names: Mapping[str, str], stored: float) -> list[TableCells]:
    """The points of one row on XD and DG; none if nothing is stored, because the axis is logarithmic."""
    points: list[TableCells] = []
    for role, mean in MEANS.items():
        accuracy, _ = mean_and_std(cells.of(results.datasets(role)))
        if stored and is_number(accuracy):
            points.append({**names, "stored": round(stored, 1), "mean": mean, "accuracy": round(accuracy, 3)})
    return points


def rounded(name: str, by_seed: np.ndarray, *, places: int = 3) -> dict[str, float]:
    """{name, std} of (datasets, seeds)."""
    mean, deviation = mean_and_std(by_seed)
    return {name: round(mean, places), "std": round(deviation, places)}


def evenly(n: int, *, at_most: int) -> list[int]:
    """At most `at_most` of n places, evenly spaced, both ends included."""
    places = np.linspace(0, n - 1, min(at_most, n))
    whole = places.round().astype(int)
    return np.unique(whole).tolist()
