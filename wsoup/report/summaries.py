"""What stands beside the tables of accuracies: gains, accuracy against m, costs, the diversity loss, metrics.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from wsoup.core.disk.artifacts import PRETRAINED
from wsoup.evaluate.rows import methods, soup_title
from wsoup.finetune.params import CrossEntropyLoss, MethodParams
from wsoup.report.means import MEANS, PLACES, ROLES, is_number, mean_and_std
from wsoup.report.results import Results
from wsoup.report.tables import Table, averaged, with_std
from wsoup.soup.soup import Soup
from wsoup.statistics.noise import over_datasets

PARTS = {"ranking": "ranked", "search": "searched"}
"""Parts of a cost, and how tables call what each did to texts and tokens."""


def paired_table(results: Results, *, confidence: float) -> Table:
    """What each row gains over the class name alone on the same datasets and seeds, with datasets resampled."""
    base, lines = results.class_name, []
    for (variant, row, cells), role in product(results.rows(), MEANS):
        if base is not None and (variant, row) != (PRETRAINED, results.table[0]):
            differences = cells.of(results.datasets(role)) - base.of(results.datasets(role))
            if differences.size and not np.isnan(differences).any():
                line: dict[str, Any] = {"variant": variant, "method": results.label(row), "role": role}
                line["difference"] = float(differences.mean())
                if (estimate := over_datasets(differences)) is not None:
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
    lines = [
        {"variant": variant, "method": method.name, "mode": mode, "m": m} | averaged(results.by_role(cells))
        for variant in results.variants
        for method in methods(results.table)
        if method.sized
        for mode in ("centroid", "score_mean")
        for m, cells in results.curve(variant, method=method, mode=mode).items()
    ]
    columns = ["variant", "method", "mode", "m", *with_std(ROLES)]
    return Table("accuracy_by_m", "Accuracy against the number of members", columns, lines, ["Per cent."])


def metrics(results: Results) -> dict[str, Any]:
    """What ``dvc metrics diff`` compares: per variant and row, source, XD and DG mean and deviation over seeds.

    A base-to-new run also has the harmonic mean of base and new.
    """
    by_variant: dict[str, Any] = {}
    for variant, row, cells in results.rows():
        entry: dict[str, float] = {}
        values = {f"{role}_mean": by_seed for role, by_seed in results.by_role(cells).items()}
        for key, by_seed in (values | {"harmonic_mean": results.harmonic(cells)}).items():
            mean, deviation = mean_and_std(by_seed)
            if is_number(mean):
                entry["source" if key == "source_mean" else key] = round(mean, 3)
                entry[key.replace("_mean", "") + "_std"] = round(deviation, 3)
        by_variant.setdefault(variant, {})[row.key] = entry
    return by_variant


# ---------------------------------------------------------------------------------------------------------- costs


def cost_table(gains: Sequence[Mapping[str, Any]], *, soups: Mapping[str, Sequence[Soup]]) -> Table:
    """Texts and tokens that the ranking and search of every soup encode (`search.rank.cost`), beside its gains.

    Args:
        gains: `wsoup.report.verdict.gains`.
        soups: all seeds of each, by its name; those whose files know no cost are left out.
    """
    lines = [
        {"soup": title, "thousand tokens": _tokens(of_seeds) / 1e3}
        | {
            f"texts {said}": round(float(np.mean([soup.cost[part].texts for soup in of_seeds])))
            for part, said in PARTS.items()
        }
        | {
            f"thousand tokens {said}": float(np.mean([soup.cost[part].tokens for soup in of_seeds])) / 1e3
            for part, said in PARTS.items()
        }
        | {f"gain, {row['mean']}": row["gain"] for row in gains if row["soup"] == title}
        for title, of_seeds in _known(soups).items()
    ]
    columns = ["soup", *(f"{what} {said}" for said in PARTS.values() for what in ("texts", "thousand tokens"))]
    columns += ["thousand tokens", *(f"gain, {title}" for title in dict.fromkeys(row["mean"] for row in gains))]
    notes = [
        "Means over seeds. A text is encoded with every class: tokens are those of all classes, behind class prompts.",
        "A ranking counts in every soup that begins with it. Gains are points over the class name only, as cards show.",
    ]
    return Table("cost", "What soups cost", columns, lines, notes)


def gain_by_cost(gains: Sequence[Mapping[str, Any]], *, soups: Mapping[str, Sequence[Soup]]) -> list[dict[str, Any]]:
    """Gain over the class name only against its cost: rows of `gains` (see `cost_table`) with {tokens}.

    `tokens` are those of a soup's ranking and search, mean over seeds. Soups whose files know no cost are left out.
    """
    tokens = {title: round(_tokens(of_seeds)) for title, of_seeds in _known(soups).items()}
    return [{**row, "tokens": tokens[row["soup"]]} for row in gains if row["soup"] in tokens]


def _known(soups: Mapping[str, Sequence[Soup]]) -> dict[str, Sequence[Soup]]:
    """Soups that know their cost, by what tables call them."""
    return {soup_title(name): of_seeds for name, of_seeds in soups.items() if all(soup.cost for soup in of_seeds)}


def _tokens(of_seeds: Sequence[Soup]) -> float:
    """Of ranking and search together, mean over seeds."""
    return float(np.mean([sum(cost.tokens for cost in soup.cost.values()) for soup in of_seeds]))


# -------------------------------------------------------------------------------- what the diversity loss does


def members_kl(results: Results, *, methods: Mapping[str, MethodParams]) -> list[dict[str, Any]]:
    """Data of the figure: {method, lambda, iteration, kl, std} in nats, mean and deviation over seeds.

    Methods trained over a soup; members that are trained themselves (ensembles) are another matter.
    """
    return [
        {"method": method, "lambda": _lambda(methods[method]), "iteration": iteration}
        | _rounded("kl", values, places=5)
        for method, steps in results.divergence.items()
        if methods[method].soup != "class_name"
        for iteration, values in sorted(steps.items())
    ]


def training(results: Results, *, methods: Mapping[str, MethodParams]) -> list[dict[str, Any]]:
    """Data of the figure: {method, lambda, mean, iteration, accuracy, std}, per cent on some images of every dataset.

    A mean is over the datasets of a role, mean and deviation over seeds, as in the tables.
    """
    rows = []
    for method, lines in results.training.items():
        accuracies: dict[tuple[str, int], dict[int, list[float]]] = {}
        for seed, iteration, dataset, n_correct, n_images in lines:
            if (role := results.roles.get(dataset)) is not None:
                by_seed = accuracies.setdefault((PLACES[role], iteration), {})
                by_seed.setdefault(seed, []).append(100.0 * n_correct / n_images)
        for (mean, iteration), by_seed in sorted(accuracies.items()):
            place = {"method": method, "lambda": _lambda(methods[method]), "mean": mean, "iteration": iteration}
            rows.append(place | _rounded("accuracy", [np.mean(of_seed) for of_seed in by_seed.values()], places=3))
    return rows


def _rounded(name: str, of_seeds: Sequence[Any], *, places: int) -> dict[str, float]:
    mean, deviation = mean_and_std(np.array([of_seeds]))
    return {name: round(mean, places), "std": round(deviation, places)}


def diversity(results: Results, *, methods: Mapping[str, MethodParams]) -> Table:
    """Every method trained over a soup: lambda, divergence at the end, and accuracy with its soup and without."""
    lines = []
    over_soups = [name for name in methods if name in results.divergence and methods[name].soup != "class_name"]
    over_soups.sort(key=lambda name: (methods[name].tune.kind, methods[name].soup, _lambda(methods[name])))
    for name in over_soups:
        method, steps = methods[name], results.divergence[name]
        line: dict[str, Any] = {"method": name, "trained": method.tune.kind, "soup": method.soup}
        line |= {"lambda": _lambda(method)} | averaged({"members' KL": np.array([steps[max(steps)]])})
        line["members' KL"] = round(line["members' KL"], 4)
        for key, title in ((f"{method.soup}_soup", "soup"), ("class_name", "class name")):
            row = results.row(key)
            if row is not None and (cells := results.cells(name, row)) is not None:
                line |= averaged({f"{role}, {title}": values for role, values in results.by_role(cells).items()})
        lines.append(line)
    columns = ["method", "trained", "soup", "lambda"]
    columns += with_std(["members' KL", *(f"{role}, {title}" for title in ("soup", "class name") for role in ROLES)])
    notes = [
        "Per cent. Members' KL: divergence between the predictions of two members in nats, mean over pairs, images and "
        "seeds, at the end of training. lambda is the initial model's share of the target; 0 is plain training."
    ]
    return Table("diversity", "Lambda, members' divergence and accuracy", columns, lines, notes)


def _lambda(method: MethodParams) -> float:
    return (method.loss.weight or 0.0) if isinstance(method.loss, CrossEntropyLoss) else 0.0
