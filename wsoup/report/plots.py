"""Data of the figures, as CSV and JSON that ``dvc plots`` and the page read with the Vega-Lite templates beside them.

The templates in wsoup/report/templates have the anchor ``<DVC_METRIC_DATA>`` and tell revisions apart by the field
``rev``, which DVC adds to every row when it compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import PRETRAINED
from wsoup.evaluate.rows import TableRow, judged_mode, soup_title
from wsoup.report.means import MEANS, PLACES, is_number, mean_and_std
from wsoup.report.reading import attributes_of
from wsoup.report.results import Cells, Results
from wsoup.report.tables import Table
from wsoup.soup.soup import Soup

TEMPLATES = Path(__file__).with_name("templates")
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""Of the library that the page carries; the templates name the older one that ``dvc plots`` loads."""
POINTS = 200
"""Points of a sorted curve: nobody could tell more apart, and the file is kept in git."""
FINER = 4
"""Steps that a landscape is drawn in for each measured one, in both directions."""


def candidates(scores: Mapping[str, Path], *, seed: int) -> list[dict[str, Any]]:
    """Accuracy of all candidates on the source's few-shot images, sorted: {pool, share, accuracy, none}.

    Of a pool that raced only those that went through all rounds: the others were scored on fewer classes.

    Args:
        scores: pool -> its Parquet of scores; a text that is empty is the class name without a descriptor.
        seed: which seed's images.
    """
    rows: list[dict[str, Any]] = []
    for pool, path in scores.items():
        lines = [line for line in store.read_table(path).to_pylist() if line["seed"] == seed]
        most = max((line.get("n_classes", 0) for line in lines), default=0)
        whole = [line for line in lines if line.get("n_classes", 0) == most]
        by_text = {line["text"]: 100.0 * line["n_correct"] / line["n_images"] for line in whole}
        none, accuracy = by_text.pop("", None), sorted(by_text.values(), reverse=True)
        last = max(1, len(accuracy) - 1)
        places = np.unique(np.linspace(0, len(accuracy) - 1, min(POINTS, len(accuracy))).round().astype(int))
        rows += [
            {"pool": pool, "share": round(100.0 * i / last, 2), "accuracy": round(accuracy[i], 3), "none": none}
            for i in places.tolist()
        ]
    return rows


def transfer(path: Path) -> list[dict[str, Any]]:
    """Each surveyed descriptor: {text, source, target, correlation}, accuracies per cent, targets' mean.

    `correlation` is Pearson's over all descriptors, the same in every row; null where it is not defined.
    """
    source: dict[str, float] = {}
    targets: dict[str, list[float]] = {}
    for line in store.read_table(path).to_pylist():
        accuracy = 100.0 * line["n_correct"] / line["n_images"]
        if line["role"] == "source":
            source[line["text"]] = accuracy
        else:
            targets.setdefault(line["text"], []).append(accuracy)
    means = {text: float(np.mean(targets[text])) for text in source if text in targets}
    x, y = (np.array([by_text[text] for text in means if text]) for by_text in (source, means))
    defined = len(x) > 2 and x.std() > 0 and y.std() > 0
    correlation = round(float(np.corrcoef(x, y)[0, 1]), 4) if defined else None
    return [
        {
            "text": text or "(class name only)",
            "kind": "descriptor" if text else "class name only",
            "source": round(source[text], 3),
            "target": round(mean, 3),
            "correlation": correlation,
        }
        for text, mean in means.items()
    ]


def by_size(results: Results, *, mode: str) -> list[dict[str, Any]]:
    """Accuracy of the pretrained encoder against the number of members: {method, m, mean, accuracy, std}.

    Soups in the mode in which they are judged; `mode` is ``report.mode``. Texts that have one size are a point.
    """
    points = [
        (drawn.curve, m, name, *mean_and_std(cells.of(results.datasets(role))))
        for drawn in results.table
        if drawn.curve is not None
        and (drawn.method.soup is None or drawn.mode == judged_mode(drawn.method.soup, mode=mode))
        for m, cells in _sizes(results, drawn).items()
        for role, name in PLACES.items()
    ]
    return [
        {"method": curve, "m": m, "mean": name, "accuracy": round(mean, 3), "std": round(deviation, 3)}
        for curve, m, name, mean, deviation in points
        if is_number(mean)
    ]


def _sizes(results: Results, row: TableRow) -> Mapping[int, Cells] | Mapping[float, Cells]:
    if row.method.sized:
        return results.curve(PRETRAINED, method=row.method, mode=row.mode)
    cells = results.cells(PRETRAINED, row)
    return {} if cells is None else {round(cells.texts, 1): cells}


def parameters(table: Table) -> list[dict[str, Any]]:
    """Accuracy against the numbers stored: {method, trained, texts, stored, mean, accuracy}."""
    return [
        {
            **{key: line[key] for key in ("method", "trained", "texts")},
            "stored": round(line["stored"], 1),
            "mean": name,
            "accuracy": round(line[role], 3),
        }
        for line, (role, name) in product(table.rows, MEANS.items())
        if is_number(line[role]) and line["stored"]
    ]


def growth(soups: Mapping[str, Sequence[Soup]]) -> list[dict[str, Any]]:
    """How accuracy on the source's few-shot images rose as soups were built: {soup, member, step, added, accuracy}.

    A word chain is one line, word by word; a descriptor soup is one line, descriptor by descriptor.
    """
    rows = []
    for name, soup in ((name, soup) for name, of_seeds in soups.items() for soup in of_seeds):
        chains, steps = soup.kind == "chains", count(1)
        for number, member in enumerate(soup.members):
            steps = count(1) if chains else steps
            rows += [
                {
                    "soup": f"{soup_title(name)}, seed {soup.seed}",
                    "member": number if chains else 0,
                    "step": next(steps),
                    "added": step.added,
                    "accuracy": round(100.0 * step.n_correct / (member.n_images or 1), 3),
                }
                for step in member.trace
            ]
    return rows


def landscape(tables: Mapping[str, Path]) -> list[dict[str, Any]]:
    """0-1 error over the plane of two initialisations and what was tuned: {method, origin, mean, x, y, error}.

    `origin` is which of them x = y = 0 is: A, or tuned.

    Args:
        tables: method -> its Parquet of counts, see `wsoup.evaluate.landscape`.
    """
    rows = []
    for method, path in tables.items():
        origin = attributes_of(path, "origin")["origin"]
        errors: dict[tuple[str, float, float], list[float]] = {}
        for line in store.read_table(path).to_pylist():
            mean = "source" if line["role"] == "source" else "mean of the targets"
            error = 100.0 - 100.0 * line["n_correct"] / line["n_images"]
            errors.setdefault((mean, line["x"], line["y"]), []).append(error)
        for (mean, x, y), by_dataset in errors.items():
            place = {"method": method, "origin": origin, "mean": mean, "x": round(x, 4), "y": round(y, 4)}
            rows.append({**place, "error": round(float(np.mean(by_dataset)), 3)})
    return rows


def between(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A landscape's rows and, between them, values interpolated linearly: then stepped colours look like contours."""
    planes: dict[tuple[str, str, str], dict[tuple[float, float], float]] = {}
    for row in rows:
        planes.setdefault((row["method"], row["origin"], row["mean"]), {})[row["x"], row["y"]] = row["error"]
    finer = []
    for (method, origin, mean), plane in planes.items():
        xs, ys = (sorted({place[i] for place in plane}) for i in (0, 1))
        new_x, new_y = _finer(xs), _finer(ys)
        wide = np.array([np.interp(new_x, xs, [plane[x, y] for x in xs]) for y in ys])  # (ys, new xs)
        errors = np.array([np.interp(new_y, ys, column) for column in wide.T])  # (new xs, new ys)
        finer += [
            {
                "method": method,
                "origin": origin,
                "mean": mean,
                "x": round(float(new_x[i]), 4),
                "y": round(float(new_y[j]), 4),
                "error": round(float(error), 3),
            }
            for (i, j), error in np.ndenumerate(errors)
        ]
    return finer


def _finer(values: Sequence[float]) -> np.ndarray:
    """`FINER` equal steps from each value to the next: (n,) -> (FINER * (n - 1) + 1,)."""
    places = np.arange(FINER * (len(values) - 1) + 1) / FINER
    return np.interp(places, np.arange(len(values)), values)


def figure(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A template with the data of one revision: a complete Vega-Lite specification."""
    template = json.loads((TEMPLATES / f"{name}.json").read_text(encoding="utf-8"))
    specification: dict[str, Any] = without_revisions(template)
    specification["$schema"] = SCHEMA
    # Labels in a row that touch read as one number; symbols that are black by themselves are not seen in the dark.
    specification["config"] = {"axis": {"labelSeparation": 8}, "legend": {"symbolBaseFillColor": "#888"}}
    specification["data"] = {"values": list(rows)}
    if name == "landscape":
        means = {row["mean"] for row in rows}  # a run without targets has the source's row of panels alone
        specification["vconcat"] = [part for part in specification["vconcat"] if part["title"]["text"] in means]
        specification["data"] = {"values": between(rows)}
    return specification


def without_revisions(part: Any) -> Any:
    """A specification without the channels that tell revisions apart."""
    if isinstance(part, dict):
        kept = {k: v for k, v in part.items() if not (isinstance(v, dict) and v.get("field") == "rev")}
        return {key: without_revisions(value) for key, value in kept.items()}
    return [without_revisions(value) for value in part] if isinstance(part, list) else part
