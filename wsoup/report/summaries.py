"""What stands beside the tables of accuracies: gains of every row, accuracy against m, and metrics.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from wsoup.disk.artifacts import PRETRAINED
from wsoup.evaluate.rows import methods
from wsoup.report.means import MEANS, ROLES, is_number, mean_and_std
from wsoup.report.results import Results
from wsoup.report.tables import Table
from wsoup.statistics.noise import over_datasets


def paired_table(results: Results, *, confidence: float) -> Table:
    """What each row gains over the class name alone on the same datasets and seeds, with datasets resampled."""
    base = results.cells(PRETRAINED, results.table[0])
    lines = []
    for variant, row, cells in results.rows():
        for role in MEANS:
            names = results.datasets(role)
            if base is None or not names or (variant, row) == (PRETRAINED, results.table[0]):
                continue
            differences = cells.of(names) - base.of(names)
            if not np.isnan(differences).any():
                estimate = over_datasets(differences)
                line: dict[str, Any] = {"variant": variant, "method": results.label(row), "role": role}
                line["difference"] = float(differences.mean())
                if estimate is not None:
                    line["low"], line["high"] = estimate.interval(confidence)
                lines.append(line)
    notes = [
        f"Points gained over the pretrained encoder with class names only, on the same datasets and seeds; low to high "
        f"is the {confidence:.0%} interval over datasets and seeds, the verdict's for other datasets; a single dataset "
        "has none.",
        "Of so many intervals some leave out 0 by chance: whether a soup gains more than noise stands in the verdict.",
    ]
    columns = ["variant", "method", "role", "difference", "low", "high"]
    return Table("paired", "Gains over the class name alone", columns, lines, notes)


def size_table(results: Results) -> Table:
    """Accuracy against the number of members m."""
    lines = []
    for variant in results.variants:
        for method in methods(results.table):
            for mode in ("centroid", "score_mean") if method.sized else ():
                for m, cells in results.curve(variant, method=method, mode=mode).items():
                    line: dict[str, Any] = {"variant": variant, "method": method.name, "mode": mode, "m": m}
                    for role in ROLES:
                        line[role], line[f"{role} (std)"] = mean_and_std(cells.of(results.datasets(role)))
                    lines.append(line)
    columns = ["variant", "method", "mode", "m", *(f"{role}{suffix}" for role in ROLES for suffix in ("", " (std)"))]
    return Table("accuracy_by_m", "Accuracy against the number of members", columns, lines, ["Per cent."])


def metrics(results: Results) -> dict[str, Any]:
    """What ``dvc metrics diff`` compares: per variant and row, source, XD and DG mean and deviation over seeds.

    A base-to-new run also has the harmonic mean of base and new.
    """
    by_variant: dict[str, Any] = {}
    for variant, row, cells in results.rows():
        entry: dict[str, float] = {}
        values = {"source": cells.of(results.datasets("source"))}
        values |= {f"{role}_mean": cells.of(results.datasets(role)) for role in MEANS}
        values["harmonic_mean"] = results.harmonic(cells)
        for key, by_seed in values.items():
            mean, deviation = mean_and_std(by_seed)
            if is_number(mean):
                entry[key] = round(mean, 3)
                entry[key.replace("_mean", "") + "_std"] = round(deviation, 3)
        by_variant.setdefault(variant, {})[row.key] = entry
    return by_variant
