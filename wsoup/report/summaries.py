"""What stands beside the tables of accuracies: paired differences, accuracy against m, and metrics.json."""

from __future__ import annotations

import math
from typing import Any

from wsoup.disk.artifacts import PRETRAINED
from wsoup.evaluate.rows import methods
from wsoup.report.means import MEANS, ROLES, is_number, mean_and_std, paired_interval
from wsoup.report.results import Results
from wsoup.report.tables import Table


def paired_table(results: Results, *, samples: int, confidence: float) -> Table:
    """Each row against the class name alone, on the same datasets and seeds, with a bootstrap interval."""
    base = results.table[0]
    lines = []
    for variant in results.variants:
        for row in results.table:
            for role in MEANS:
                names = results.datasets(role)
                first, second = results.cells(PRETRAINED, base), results.cells(variant, row)
                if first is None or second is None or not names or (variant == PRETRAINED and row is base):
                    continue
                a, b = first.of(names), second.of(names)
                if math.isnan(float((a + b).sum())):
                    continue
                mean, low, high = paired_interval(a, b, samples=samples, confidence=confidence, seed=0)
                sure = "better" if low > 0 else "worse" if high < 0 else "noise"
                lines.append(
                    {
                        "variant": variant,
                        "method": row.label,
                        "role": role,
                        "difference": mean,
                        "low": low,
                        "high": high,
                        "verdict": sure,
                    }
                )
    note = (
        f"Points gained over the pretrained encoder with class names only, on the same datasets and seeds; low to high "
        f"is the {confidence:.0%} bootstrap interval over datasets and seeds ({samples} samples)."
    )
    columns = ["variant", "method", "role", "difference", "low", "high", "verdict"]
    return Table("paired", "What is more than noise", columns, lines, [note])


def size_table(results: Results) -> Table:
    """Accuracy against the number of members m."""
    lines = []
    for variant in results.variants:
        for method in methods(results.table):
            if not method.sized:
                continue
            for mode in ("centroid", "score_mean"):
                for m, cells in results.curve(variant, method=method, mode=mode).items():
                    line: dict[str, Any] = {"variant": variant, "method": method.name, "mode": mode, "m": m}
                    for role in ROLES:
                        line[role], line[f"{role} (std)"] = mean_and_std(cells.of(results.datasets(role)))
                    lines.append(line)
    columns = ["variant", "method", "mode", "m"]
    columns += [f"{role}{suffix}" for role in ROLES for suffix in ("", " (std)")]
    return Table("accuracy_by_m", "Accuracy against the number of members", columns, lines, ["Per cent."])


def metrics(results: Results) -> dict[str, Any]:
    """What ``dvc metrics diff`` compares: per variant and row, source, XD and DG mean and deviation over seeds.

    A base-to-new run also has the harmonic mean of base and new.
    """
    found: dict[str, Any] = {}
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
        found.setdefault(variant, {})[row.key] = entry
    return found
