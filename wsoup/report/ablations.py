"""What the diversity loss does: how far the members' predictions stay apart in training, and what that buys."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from wsoup.finetune.params import CrossEntropyLoss, MethodParams
from wsoup.report.means import MEANS, ROLES
from wsoup.report.results import Results
from wsoup.report.tables import Table, averaged, with_std


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
            "std": round(_deviation(values), 5),
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
        accuracies: dict[tuple[str, int], dict[int, list[float]]] = {}
        for seed, iteration, dataset, n_correct, n_images in lines:
            if (role := results.roles.get(dataset)) is not None:
                by_seed = accuracies.setdefault((means[role], iteration), {})
                by_seed.setdefault(seed, []).append(100.0 * n_correct / n_images)
        for (mean, iteration), by_seed in sorted(accuracies.items()):
            values = [statistics.mean(of_seed) for of_seed in by_seed.values()]
            place = {"method": method, "lambda": _weight(methods[method]), "mean": mean, "iteration": iteration}
            shown = {"accuracy": round(statistics.mean(values), 3), "std": round(_deviation(values), 3)}
            rows.append(place | shown)
    return rows


def diversity(results: Results, *, methods: Mapping[str, MethodParams]) -> Table:
    """Every method trained over a soup: lambda, divergence at the end, and accuracy with its soup and without."""
    lines = []
    over_soups = [name for name in methods if name in results.divergence and methods[name].soup != "class_name"]
    over_soups.sort(key=lambda name: (methods[name].tune.kind, methods[name].soup, _weight(methods[name])))
    for name in over_soups:
        method, steps = methods[name], results.divergence[name]
        last = steps[max(steps)]
        line: dict[str, Any] = {"method": name, "trained": method.tune.kind, "soup": method.soup}
        line |= {"lambda": _weight(method), "members' KL": round(statistics.mean(last), 4)}
        line["members' KL (std)"] = _deviation(last)
        for key, title in ((f"{method.soup}_soup", "soup"), ("class_name", "class name")):
            row = results.row(key)
            cells = None if row is None else results.cells(name, row)
            if cells is not None:
                line |= averaged({f"{role}, {title}": values for role, values in results.by_role(cells).items()})
        lines.append(line)
    columns = ["method", "trained", "soup", "lambda"]
    columns += with_std(["members' KL", *(f"{role}, {title}" for title in ("soup", "class name") for role in ROLES)])
    notes = [
        "Per cent. Members' KL: divergence between the predictions of two members in nats, mean over pairs, images and "
        "seeds, at the end of training. lambda is the initial model's share of the target; 0 is plain training."
    ]
    return Table("diversity", "Lambda, members' divergence and accuracy", columns, lines, notes)


def _deviation(values: Sequence[float]) -> float:
    """Over seeds; 0 of a single one."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _weight(method: MethodParams) -> float:
    return (method.loss.weight or 0.0) if isinstance(method.loss, CrossEntropyLoss) else 0.0
