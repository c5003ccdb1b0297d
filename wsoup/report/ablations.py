"""What the diversity loss does: how far the members' predictions stay apart in training, and what that buys."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from wsoup.finetune.params import CrossEntropyLoss, MethodParams
from wsoup.report.means import MEANS, ROLES, mean_and_std
from wsoup.report.results import Results
from wsoup.report.tables import Table


def members_kl(results: Results, *, methods: Mapping[str, MethodParams]) -> list[dict[str, Any]]:
    """Data of the figure: {method, lambda, iteration, kl, std} in nats, mean and deviation over seeds.

    Methods trained over a soup; members that are trained themselves (ensembles) are another matter.
    """
    return [
        {
            "method": method,
            "lambda": _weight(methods[method]),
            "iteration": iteration,
            "kl": round(statistics.mean(values), 5),
            "std": round(statistics.stdev(values), 5) if len(values) > 1 else 0.0,
        }
        for method, steps in results.divergence.items()
        if methods[method].soup != "class_name"
        for iteration, values in sorted(steps.items())
    ]


def training(results: Results, *, methods: Mapping[str, MethodParams]) -> list[dict[str, Any]]:
    """Data of the figure: {method, lambda, mean, iteration, accuracy, std}, per cent on some images of every dataset.

    A mean is over the datasets of a role, mean and deviation over seeds, as in the tables.
    """
    rows, means = [], {"source": "source", **MEANS}
    for method, lines in results.training.items():
        found: dict[tuple[str, int], dict[int, list[float]]] = {}
        for seed, iteration, dataset, n_correct, n_images in lines:
            mean = means.get(results.roles.get(dataset, ""))
            if mean is not None:
                found.setdefault((mean, iteration), {}).setdefault(seed, []).append(100.0 * n_correct / n_images)
        for (mean, iteration), of_seeds in sorted(found.items()):
            values = [statistics.mean(accuracies) for accuracies in of_seeds.values()]
            place = {"method": method, "lambda": _weight(methods[method]), "mean": mean, "iteration": iteration}
            deviation = round(statistics.stdev(values), 3) if len(values) > 1 else 0.0
            rows.append({**place, "accuracy": round(statistics.mean(values), 3), "std": deviation})
    return rows


def diversity(results: Results, *, methods: Mapping[str, MethodParams]) -> Table:
    """Every method trained over a soup: lambda, divergence at the end, and accuracy with its soup and without."""
    lines = []
    divergence = results.divergence
    chosen = [name for name in methods if name in divergence and methods[name].soup != "class_name"]
    for name in sorted(chosen, key=lambda name: (methods[name].tune.kind, methods[name].soup, _weight(methods[name]))):
        last = divergence[name][max(divergence[name])]
        method = methods[name]
        line: dict[str, Any] = {"method": name, "trained": method.tune.kind, "soup": method.soup}
        line |= {"lambda": _weight(method), "members' KL": round(statistics.mean(last), 4)}
        line["members' KL (std)"] = statistics.stdev(last) if len(last) > 1 else 0.0
        for key, title in ((f"{method.soup}_soup", "soup"), ("class_name", "class name")):
            row = results.row(key)
            cells = None if row is None else results.cells(name, row)
            if cells is not None:
                for role in ROLES:
                    found = mean_and_std(cells.of(results.datasets(role)))
                    line[f"{role}, {title}"], line[f"{role}, {title} (std)"] = found
        lines.append(line)
    columns = ["method", "trained", "soup", "lambda", "members' KL", "members' KL (std)"]
    columns += [f"{role}, {title}{end}" for title in ("soup", "class name") for role in ROLES for end in ("", " (std)")]
    notes = [
        "Per cent. Members' KL: divergence between the predictions of two members in nats, mean over pairs, images and "
        "seeds, at the end of training. lambda is the initial model's share of the target; 0 is plain training."
    ]
    return Table("diversity", "Lambda, members' divergence and accuracy", columns, lines, notes)


def _weight(method: MethodParams) -> float:
    return (method.loss.weight or 0.0) if isinstance(method.loss, CrossEntropyLoss) else 0.0
