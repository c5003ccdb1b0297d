"""Data of the figures as JSON, which ``dvc plots`` and the page draw with the Vega-Lite templates beside this module.

The templates have the anchor ``<DVC_METRIC_DATA>`` and distinguish revisions by the field ``rev``, which DVC adds to
every row when it compares.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np

from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.rows import CLASS_NAME, CURVE, judged_mode
from wsoup.finetune.loss_params import CrossEntropyLoss
from wsoup.finetune.params import MethodParams
from wsoup.report.results import MEANS, PLACES, Cells, Results
from wsoup.report.tables import Row, TableRow, is_number, mean_and_std, soup_label, soup_title
from wsoup.report.verdict import Judgement, title

POINTS = 200
"""Points of a sorted curve: more could not be told apart, and the file is kept in git."""


def gains(judgement: Judgement) -> Sequence[Row]:
    """Gains over the class name alone: {row, place, gain, low, high, verdict}.

    Templates, the run's soup (all seeds) and the head as in the answer; every other soup as a mean over seeds.
    """
    shown = [
        (title(name, judgement), role, gain)
        for role, each in judgement.answers.items()
        for name, gain in each.gains.items()
    ]
    shown += [
        (soup_title(each.soup), each.role, each.fixed)
        for each in judgement.comparisons
        if each.rival == CLASS_NAME.name and each.soup != judgement.soup
    ]
    return [
        {"row": row, "place": PLACES[role], "gain": round(gain.mean, 3)}
        | {"low": round(gain.low, 3), "high": round(gain.high, 3), "verdict": gain.word}
        for row, role, gain in shown
    ]


def candidates(scores: Mapping[str, Path], *, seed: int) -> Sequence[Row]:
    """Accuracy of all candidates on the source's few-shot images, sorted: {pool, share, accuracy, none}.

    Args:
        scores: pool -> its Parquet of scores; an empty text is the class name without a descriptor.
        seed: which seed's images.
    """
    rows: list[dict[str, object]] = []
    for pool, path in scores.items():
        lines = [line for line in store.read_table(path).to_pylist() if line["seed"] == seed]
        by_text = {line["text"]: 100.0 * line["n_correct"] / line["n_images"] for line in lines}
        class_name, accuracy = by_text.pop("", None), sorted(by_text.values(), reverse=True)
        last = max(1, len(accuracy) - 1)
        rows += [
            {"pool": pool, "share": round(100.0 * i / last, 2), "accuracy": round(accuracy[i], 3), "none": class_name}
            for i in evenly(len(accuracy), at_most=POINTS)
        ]
    return rows


def transfer(path: Path) -> Sequence[Row]:
    """Each surveyed descriptor: {text, kind, source, target, correlation}, per cent, targets' mean.

    `correlation` is Pearson's over all descriptors, the same in every row; null where it is not defined.
    """
    source: dict[str, list[float]] = {}
    targets: dict[str, list[float]] = {}
    for line in store.read_table(path).to_pylist():
        by_text = source if line["role"] == "source" else targets
        by_text.setdefault(line["text"], []).append(100.0 * line["n_correct"] / line["n_images"])
    means = {text: (source[text][0], float(np.mean(targets[text]))) for text in source if text in targets}
    x, y = np.array([means[text] for text in means if text]).reshape(-1, 2).T
    defined = len(x) > 2 and x.std() > 0 and y.std() > 0
    correlation = round(float(np.corrcoef(x, y)[0, 1]), 4) if defined else None
    return [
        {
            "text": text or "(class name only)",
            "kind": "descriptor" if text else "class name only",
            "source": round(on_source, 3),
            "target": round(on_targets, 3),
            "correlation": correlation,
        }
        for text, (on_source, on_targets) in means.items()
    ]


def by_size(results: Results, *, mode: Literal["centroid", "score_mean", "paper"]) -> Sequence[Row]:
    """Accuracy of the pretrained encoder against the number of members: {method, m, mean, accuracy, std}.

    Soups in the mode in which they are judged; `mode` is ``report.mode``. Texts of a single size are a point.
    """
    rows = [
        {"method": row.curve, "m": m, "mean": name, **_rounded("accuracy", cells.of(results.datasets(role)))}
        for row in results.table
        if row.curve is not None and (row.method.soup is None or row.mode == judged_mode(row.method.soup, mode=mode))
        for m, cells in _sizes(results, row).items()
        for role, name in PLACES.items()
    ]
    return [row for row in rows if is_number(row["accuracy"])]


def _sizes(results: Results, row: TableRow) -> Mapping[int, Cells] | Mapping[float, Cells]:
    if row.method.sized:
        return results.curve(row.method, mode=row.mode)
    cells = results.cells(PRETRAINED, row)
    return {} if cells is None else {round(cells.texts, 1): cells}


def parameters(results: Results, *, trained: Mapping[str, str]) -> Sequence[Row]:
    """Accuracy against numbers stored: {method, trained, texts, stored, mean, accuracy}, means over seeds.

    A word soup stores one integer a token, a soft token D floats.

    Args:
        results: the run.
        trained: what each finetuned method trains, and what each head is.
    """
    shown = []
    whole = [row for row in results.table if row.mode == "centroid" and not row.offsets]
    for row in whole:
        if (soup := row.method.soup) is not None:
            for m, cells in results.curve(row.method, mode="centroid").items():
                names = {"method": f"{soup_label(soup)} m={m}", "trained": "nothing", "texts": soup_title(soup)}
                shown.append((names, cells, cells.stored))
    others = (None, "descriptor", CURVE)  # soups that finetuned models are not shown with, as in the paper
    plain = [row for row in whole if row.method is CLASS_NAME or row.method.soup not in others]
    for (variant, count), row in product(results.parameters.items(), plain):
        if (tuned := results.cells(variant, row)) is not None:
            soup = row.method.soup
            texts = "class name" if soup is None else soup_title(soup)
            names = {"method": variant if soup is None else f"{variant} + {texts}", "trained": trained[variant]}
            shown.append((names | {"texts": texts}, tuned, count + (tuned.stored or 0.0)))
    return [
        {**names, "stored": round(stored, 1), "mean": mean, "accuracy": round(accuracy, 3)}
        for (names, cells, stored), (role, mean) in product(shown, MEANS.items())
        if stored and is_number(accuracy := mean_and_std(cells.of(results.datasets(role)))[0])
    ]


def members_kl(results: Results, *, methods: Mapping[str, MethodParams]) -> Sequence[Row]:
    """Divergence between members in training: {method, lambda, iteration, kl, std}, nats, mean and std over seeds.

    Only methods trained over a soup, not ensembles, whose members are trained themselves.
    """
    return [
        {"method": name, "lambda": lambda_of(method), "iteration": points[0][0]}
        | _rounded("kl", np.array([[value for _, value in points]]), places=5)
        for name, method in methods.items()
        if method.soup != "class_name"
        for points in zip(*results.members_kl.get(name, ()), strict=True)
    ]


def training(results: Results, *, methods: Mapping[str, MethodParams]) -> Sequence[Row]:
    """Accuracy in training on some images of every dataset: {method, lambda, mean, iteration, accuracy, std}, per cent.

    The mean is over the datasets of a role, mean and deviation over seeds, as in the tables.
    """
    rows = []
    for method, lines in results.training.items():
        accuracies: dict[tuple[str, int], dict[int, list[float]]] = {}
        for seed, iteration, dataset, n_correct, n_images in lines:
            if (role := results.roles.get(dataset)) is not None:
                by_seed = accuracies.setdefault((PLACES[role], iteration), {})
                by_seed.setdefault(seed, []).append(100.0 * n_correct / n_images)
        for (mean, iteration), by_seed in sorted(accuracies.items()):
            point = {"method": method, "lambda": lambda_of(methods[method]), "mean": mean, "iteration": iteration}
            rows.append(point | _rounded("accuracy", np.array([[np.mean(seed) for seed in by_seed.values()]])))
    return rows


def lambda_of(method: MethodParams) -> float:
    """Weight of the diversity loss; 0 is plain training."""
    return (method.loss.weight or 0.0) if isinstance(method.loss, CrossEntropyLoss) else 0.0


def _rounded(name: str, by_seed: np.ndarray, *, places: int = 3) -> dict[str, float]:
    """{name, std} of (datasets, seeds)."""
    mean, deviation = mean_and_std(by_seed)
    return {name: round(mean, places), "std": round(deviation, places)}


def evenly(n: int, *, at_most: int) -> list[int]:
    """At most `at_most` of n places, evenly spaced, both ends included."""
    return np.unique(np.linspace(0, n - 1, min(at_most, n)).round().astype(int)).tolist()
