"""Choose a head's kind, hyperparameters, temperature and abstention threshold by leave-one-shot-out.

Fold j leaves out shot j of each class. Among a kind's settings whose left-out accuracy is the best or indistinguishable
from it, the one with the smallest log loss at its best temperature wins; ties go to the first. Among kinds the first
stays unless another is significantly better: left-out images resemble the ones the head is fitted to and favour
flexible kinds, which then err on other photos. No function here sees any other image.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.base.errors import ParamsError, shown_value
from wsoup.heads.fewshot import FewShot
from wsoup.heads.kinds import KINDS, Setting

SLACK = 0.25
"""Standard errors within which counts are equal: a few images cannot tell such settings apart."""
SURE = 1.96
"""Standard errors by which another kind must be better (McNemar)."""
ANY = ("prototypes", "ridge", "gda")
"""Default kinds to choose from; the first is taken for one shot, or if no other is significantly better.

Tip-Adapter is not among them: it was worse than class means on photographs of 101 classes.
"""
PRIOR_STD = 0.5
"""Standard deviation of the prior of log temperature, whose mean is 0: logits are in the model's own scale."""
LARGEST = 5.0
"""The search for log temperature runs from -5 to 5."""
STEPS = 40
NOTHING_LEFT_OUT = "no class has two images to leave one out: default settings, uncalibrated probabilities"


@dataclass(frozen=True)
class Chosen:
    """A setting and its results on the left-out images.

    Attributes:
        kind: of `KINDS`.
        setting: its hyperparameters.
        n_correct, n_images: of the left-out images; 0 of 0 if none could be left out.
        log_loss: of the left-out images at that temperature; NaN if there are none.
        temperature: divisor of the logits.
        confidences: (n_images,) largest probability of each.
        right: (n_images,) bool, whether the prediction is right.
        note: one line on what could not be chosen, or "".
    """

    kind: str
    setting: Setting
    n_correct: int
    n_images: int
    log_loss: float
    temperature: float
    confidences: Tensor
    right: Tensor
    note: str


def choose(shots: FewShot, *, kinds: Sequence[str]) -> Chosen:
    """The best setting of the best kind.

    Args:
        shots: the few-shot images.
        kinds: names of `KINDS`; a later one must be significantly better than the one before.

    Raises:
        ParamsError: no kinds, or an unknown one.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise ParamsError(
            f"kind is {shown_value(unknown[0]) if unknown else 'none'}; expected one of {', '.join(KINDS)}"
        )
    if not shots.n_folds:
        none = torch.zeros(0, dtype=torch.float64)
        return Chosen(kinds[0], KINDS[kinds[0]](), 0, 0, math.nan, 1.0, none, none.bool(), NOTHING_LEFT_OUT)
    chosen = _best_setting(shots, kind=kinds[0])
    for kind in kinds[1:]:
        other = _best_setting(shots, kind=kind)
        wins, losses = int((other.right & ~chosen.right).sum()), int((chosen.right & ~other.right).sum())
        if wins - losses > SURE * math.sqrt(wins + losses):
            chosen = other
    return chosen


def _best_setting(shots: FewShot, *, kind: str) -> Chosen:
    rows = shots.folds >= 0
    enough = 0.0
    candidates: list[Chosen] = []
    for setting, logits in KINDS[kind].left_out(shots):
        n_correct = int((logits[rows].argmax(dim=1) == shots.labels[rows]).sum())
        enough = max(enough, n_correct - slack(n_correct, n_images=int(rows.sum())))
        if n_correct >= enough:
            candidates.append(_evaluate(kind, setting, logits[rows], shots.labels[rows]))
    return min((chosen for chosen in candidates if chosen.n_correct >= enough), key=lambda chosen: chosen.log_loss)


def slack(n_correct: int, *, n_images: int) -> float:
    """Difference of counts that means nothing: a quarter of the standard error."""
    share = min(max(n_correct, 1), n_images - 1) / n_images
    return SLACK * math.sqrt(n_images * share * (1 - share))


def _evaluate(kind: str, setting: Setting, logits: Tensor, labels: Tensor) -> Chosen:
    temperature = fit_temperature(logits, labels)
    confidences, predictions = (logits / temperature).softmax(dim=1).max(dim=1)
    right = predictions == labels
    loss = log_loss(logits, labels, temperature=temperature)
    return Chosen(kind, setting, int(right.sum()), len(labels), loss, temperature, confidences, right, "")


def log_loss(logits: Tensor, labels: Tensor, *, temperature: float) -> float:
    """Mean of -log p(label): (n, C), (n,) -> non-negative number."""
    return float(F.cross_entropy(logits / temperature, labels))


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """The most likely temperature of softmax(logits / temperature) given left-out images, by golden-section search.

    The prior keeps a few images that are all right from making the temperature 0 and every prediction certain. With
    many images it does not matter, and this is temperature scaling (Guo et al., arXiv 1706.04599).

    Args:
        logits: (n, C) float64 of left-out images.
        labels: (n,) int64.

    Returns:
        A positive number; 1 if there are no images.
    """

    def cost(log_temperature: float) -> float:
        loss = log_loss(logits, labels, temperature=math.exp(log_temperature))
        return len(labels) * loss + (log_temperature / PRIOR_STD) ** 2 / 2

    if not len(labels):
        return 1.0
    golden = (math.sqrt(5) - 1) / 2
    low, high = -LARGEST, LARGEST
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = cost(left), cost(right)
    for _ in range(STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = cost(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = cost(right)
    return math.exp((low + high) / 2)


def threshold(confidences: Tensor, right: Tensor, *, precision: float) -> float:
    """The smallest confidence from which predictions reach a precision.

    Among the left-out images at or above it, (wrong + 1) / (all + 1) is at most 1 - precision. As in conformal
    prediction, the extra wrong one stands for the next photo, so that few images promise little.

    Args:
        confidences: (n,) largest probability of each left-out image.
        right: (n,) bool, whether its prediction is right.
        precision: share of right predictions among those at or above the threshold, between 0 and 1.

    Returns:
        A number from 0 to 1; infinity if no confidence suffices, so that every photo is abstained from.
    """
    order = torch.argsort(confidences, descending=True, stable=True)
    descending, n_wrong = confidences[order], (~right[order]).cumsum(0)
    n = torch.arange(1, len(order) + 1)
    good = (n_wrong + 1) <= (1 - precision) * (n + 1) + 1e-9
    last = torch.ones_like(good)
    last[:-1] = descending[1:] < descending[:-1]  # equal confidences stay together
    enough = (good & last).nonzero()[:, 0]
    return float(descending[enough[-1]]) if len(enough) else math.inf
