"""Data of the two figures of training: how far members stay apart, and accuracy on the way."""

from collections.abc import Mapping, Sequence

import numpy as np

from wsoup.finetune.loss_params import CrossEntropyLoss
from wsoup.finetune.params import MethodParams
from wsoup.report.plots import rounded
from wsoup.report.results import PLACES, Results
from wsoup.report.tables import TableCells


def members_kl(results: Results, *, methods: Mapping[str, MethodParams]) -> Sequence[TableCells]:
    """Divergence between members in training: {method, lambda, iteration, kl, std}, nats, mean and std over seeds.

    Only methods trained over a soup, not ensembles, whose members are trained themselves.
    """
    points: list[TableCells] = []
    for name, method in methods.items():
        if method.soup == "class_name":
            continue
        by_seed = [dict(logged) for logged in results.members_kl.get(name, ())]
        iterations = sorted(set().union(*by_seed))
        for iteration in iterations:
            # A seed whose members are equal, or are one alone, logs nothing: they do not differ.
            values = [logged.get(iteration, 0.0) for logged in by_seed]
            figures = rounded("kl", np.array([values]), places=5)
            points.append({"method": name, "lambda": lambda_of(method), "iteration": iteration, **figures})
    return points


def training(results: Results, *, methods: Mapping[str, MethodParams]) -> Sequence[TableCells]:
    """Accuracy in training on some images of every dataset: {method, lambda, mean, iteration, accuracy, std}, per cent.

    The mean is over the datasets of a role, mean and deviation over seeds, as in the tables.
    """
    points: list[TableCells] = []
    for method, lines in results.training.items():
        accuracies: dict[tuple[str, int], dict[int, list[float]]] = {}
        for seed, iteration, dataset, n_correct, n_images in lines:
            role = results.roles.get(dataset)
            if role is not None:
                by_seed = accuracies.setdefault((PLACES[role], iteration), {})
                by_seed.setdefault(seed, []).append(100.0 * n_correct / n_images)
        for (mean, iteration), by_seed in sorted(accuracies.items()):
            of_seeds = [np.mean(of_datasets) for of_datasets in by_seed.values()]
            figures = rounded("accuracy", np.array([of_seeds]))
            point = {"method": method, "lambda": lambda_of(methods[method]), "mean": mean, "iteration": iteration}
            points.append(point | figures)
    return points


def lambda_of(method: MethodParams) -> float:
    """Weight of the diversity loss; 0 is plain training."""
    if isinstance(method.loss, CrossEntropyLoss):
        return method.loss.weight or 0.0
    return 0.0
