"""Rivals of wsoup's head: what people fit to a few labelled photos.

Each is a function of a `FewShot` and of photos to choose by, and gives logits of new photos. Those that need no choice
leave these photos alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.core.draws import named_generator
from wsoup.finetune.optimizer_params import ScheduleParams, WarmupParams
from wsoup.finetune.schedule import rate_factor
from wsoup.heads.fewshot import FewShot
from wsoup.heads.prototypes import class_means

Photos = tuple[Tensor, Tensor]
"""Features (n, D) and labels (n,)."""
Logits = Callable[[Tensor], Tensor]
"""(N, D) -> (N, C)."""
Rival = Callable[[FewShot, Photos], Logits]

ALPHA = 1.0
BETA = 5.5
"""Tip-Adapter's residual ratio and sharpness (Zhang et al., arXiv 2207.09519)."""
ALPHAS = torch.linspace(0.1, 3.0, 10, dtype=torch.float64).tolist()
BETAS = torch.linspace(0.1, 7.0, 20, dtype=torch.float64).tolist()
"""Where it searches for others."""
TIP_SCALE = 100.0
"""Its scale of cosines of texts, which is CLIP's."""
COSTS = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4)
"""C of logistic regression, the weight of the losses beside half of the squared weights; the second is the default."""
MOST_FOLDS = 5
EPOCHS = 300
"""Steps of LP++."""
INITIAL = 250.0
"""Weight of LP++'s texts at the beginning, times the mean cosine of an image and its text."""
ROUNDS_OF_TEXTS = 10
"""Steps of LP++ from one change of its texts' weights to the next."""
MOMENTUM = 0.9
COPIES = 20
"""Augmented copies of each photo that CLAP draws its batches from; here all of them are alike."""
BATCH = 256
RATE = 0.1
SCHEDULE = ScheduleParams(kind="cosine", parts=EPOCHS, warmup=WarmupParams(parts=1, learning_rate=1e-5))
"""CLAP's batch size, learning rate and schedule (jusiro/CLAP, configs/trainers/SGD_lr1e-1_B256_ep300.yaml)."""
LENGTH = 1.0
"""Length at which CLAP's class weights begin; the longer they are, the less a step turns them. In its code they are
CLIP's texts as they come out of the tower."""


def nearest_mean(shots: FewShot, _: Photos) -> Logits:
    """The nearest mean of a class, without any text (Snell et al., arXiv 1703.05175)."""
    means = class_means(shots.features, shots.labels, n_classes=shots.n_classes)
    return lambda features: features @ means.T


def tip_adapter(shots: FewShot, _: Photos) -> Logits:
    """Tip-Adapter without training, with its published hyperparameters."""
    return _tip(shots, alpha=ALPHA, beta=BETA)


def tip_adapter_chosen(shots: FewShot, chosen_by: Photos) -> Logits:
    """... with those that get most of further photos right, as its authors search for them."""
    features, labels = chosen_by
    best = 0
    settings = (ALPHA, BETA)
    for alpha, beta in product(ALPHAS, BETAS):
        answers = _tip(shots, alpha=alpha, beta=beta)(features).argmax(dim=1)
        n_right = int((answers == labels).sum())
        if n_right > best:
            best = n_right
            settings = (alpha, beta)
    alpha, beta = settings
    return _tip(shots, alpha=alpha, beta=beta)


def _tip(shots: FewShot, *, alpha: float, beta: float) -> Logits:
    labels = F.one_hot(shots.labels, shots.n_classes).double()

    def logits(features: Tensor) -> Tensor:
        affinity = features @ shots.features.T
        from_photos = (beta * (affinity - 1)).exp() @ labels
        return TIP_SCALE * features @ shots.texts + alpha * from_photos

    return logits


def logistic_regression(shots: FewShot, _: Photos) -> Logits:
    """Logistic regression with an L2 penalty, chosen by cross-validation where classes have two photos or more."""
    n_folds = min(MOST_FOLDS, shots.n_folds)
    folds = torch.where(shots.folds >= 0, shots.folds % max(1, n_folds), -1)
    cost = COSTS[1]
    best = -1
    for some_cost in COSTS:
        n_right = 0
        for fold in range(n_folds):
            left_out = folds == fold
            weights = _regression(shots.features[~left_out], shots.labels[~left_out], shots.n_classes, some_cost)
            answers = _with_one(shots.features[left_out]) @ weights
            n_right += int((answers.argmax(dim=1) == shots.labels[left_out]).sum())
        if n_folds and n_right > best:
            best = n_right
            cost = some_cost
    weights = _regression(shots.features, shots.labels, shots.n_classes, cost)
    return lambda features: _with_one(features) @ weights


def _with_one(features: Tensor) -> Tensor:
    return torch.cat([features, torch.ones_like(features[:, :1])], dim=1)


def _regression(features: Tensor, labels: Tensor, n_classes: int, cost: float) -> Tensor:
    """Weights (D + 1, C), the last of them biases, which have no penalty; each class counts the same."""
    x = _with_one(features)
    balanced = len(labels) / (n_classes * torch.bincount(labels, minlength=n_classes).clamp(min=1).double())
    weights = torch.zeros(x.shape[1], n_classes, dtype=x.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe", tolerance_change=1e-6)

    def closure() -> Tensor:
        optimizer.zero_grad()
        losses = F.cross_entropy(x @ weights, labels, weight=balanced, reduction="sum")
        loss = (losses + weights[:-1].square().sum() / (2 * cost)) / len(labels)
        loss.backward()
        return loss

    optimizer.step(closure)
    return weights.detach()


def lp_plus_plus(shots: FewShot, chosen_by: Photos) -> Logits:
    """LP++ (Huang et al., arXiv 2404.02285): a linear probe plus texts with a learned weight for each class.

    Step sizes and initial values are the authors'. As in their code, the step that gets most of further photos right
    is kept.
    """
    x = shots.features
    n_images = len(x)
    cosines = x @ shots.texts
    targets = F.one_hot(shots.labels, shots.n_classes).double()
    own = (cosines * targets).sum(dim=0) / targets.sum(dim=0)
    of_texts = torch.full_like(own, float(INITIAL * own.mean()))
    weights = x.T @ targets
    biases = torch.zeros_like(of_texts)
    largest = float(torch.linalg.matrix_norm(x, ord=2)) ** 2
    step = 4 * n_images / largest
    step_of_texts = n_images / (4 * float(cosines.square().sum(dim=0).max()))
    moved = torch.zeros_like(weights)
    moved_biases = torch.zeros_like(biases)
    best = -1
    kept = (weights, biases, of_texts)
    for epoch in range(EPOCHS):
        error = ((x @ weights + biases + cosines * of_texts).softmax(dim=1) - targets) / n_images
        moved = MOMENTUM * moved + x.T @ error
        moved_biases = MOMENTUM * moved_biases + error.sum(dim=0)
        weights = weights - step * moved
        biases = biases - step * moved_biases
        if (epoch + 1) % ROUNDS_OF_TEXTS == 0:
            of_texts = of_texts - step_of_texts * (error * cosines).sum(dim=0)
        features, labels = chosen_by
        answers = (features @ (weights + shots.texts * of_texts) + biases).argmax(dim=1)
        n_right = int((answers == labels).sum())
        if n_right >= best:
            best = n_right
            kept = (weights, biases, of_texts)
    weights, biases, of_texts = kept
    return lambda features: features @ (weights + shots.texts * of_texts) + biases


def clap(shots: FewShot, _: Photos) -> Logits:
    """CLAP (Silva-Rodriguez et al., arXiv 2312.12730): a linear probe that begins as the texts and is held to them."""
    generator = named_generator("clap")

    def order(n_rows: int) -> np.ndarray:
        return generator.permutation(n_rows)

    weights = clap_weights(shots, length=LENGTH, order=order)
    return lambda features: features @ F.normalize(weights, dim=1).T


def clap_weights(shots: FewShot, *, length: float, order: Callable[[int], np.ndarray]) -> Tensor:
    """CLAP's class weights (C, D), as its code trains them.

    Args:
        shots: the photos and the texts.
        length: of the weights in the beginning.
        order: draws the order of so many rows, once an epoch.
    """
    n_images = len(shots.labels)
    targets = F.one_hot(shots.labels, shots.n_classes).double()
    zero_shot = shots.text_logits(shots.features).softmax(dim=1)
    # How much a class is held to its text: the mean probability that the texts give to its own photos.
    holds = (zero_shot * targets).sum(dim=0) / targets.sum(dim=0)  # (C,)
    start = length * shots.texts.T
    weights = start.clone()
    moved = torch.zeros_like(weights)
    factor = rate_factor(SCHEDULE, learning_rate=RATE)
    for epoch in range(EPOCHS):
        rows = torch.from_numpy(order(COPIES * n_images)) % n_images
        # As many batches as one copy of the photos fills.
        for batch in rows.split(BATCH)[: max(1, n_images // BATCH)]:
            images = shots.features[batch]
            directions = F.normalize(weights, dim=1)
            probabilities = (shots.logit_scale * images @ directions.T).softmax(dim=1)
            gradient = shots.logit_scale * (probabilities - targets[batch]).T @ images / len(batch)
            along = (gradient * directions).sum(dim=1, keepdim=True) * directions
            turning = (gradient - along) / weights.norm(dim=1, keepdim=True)
            holding = 2 * holds[:, None] * (weights - start) / shots.n_classes
            moved = MOMENTUM * moved + turning + holding
            weights = weights - RATE * factor(epoch, EPOCHS) * moved
    return weights


RIVALS: dict[str, Rival] = {
    "class means": nearest_mean,
    "Tip-Adapter": tip_adapter,
    "Tip-Adapter, chosen": tip_adapter_chosen,
    "LP++": lp_plus_plus,
    "logistic regression": logistic_regression,
    "CLAP": clap,
}
