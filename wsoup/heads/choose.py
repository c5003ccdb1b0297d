"""Choose a head's hyperparameters, temperature and abstention threshold by leave-one-shot-out.

Fold j leaves out shot j of each class. Among a kind's settings whose left-out accuracy is the best or indistinguishable
from it, the one with the smallest log loss at its best temperature wins; ties go to the first. No function here sees
any other image.
"""

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.base.errors import ParamsError, shown_value
from wsoup.heads.fewshot import FewShot
from wsoup.heads.kinds import PARTS, Kind, Prototypes, Ridge

SLACK = 0.25
"""Standard errors within which counts are equal: a few images cannot tell such settings apart."""
PRIOR_STD = 0.5
"""Standard deviation of the prior of log temperature, whose mean is 0: logits are in the model's own scale."""
LARGEST = 5.0
"""The search for log temperature runs from -5 to 5."""
ROWS = 256
"""Images at a time, whose logits stay in the processor's cache: three times as fast."""
STEPS = 24
"""Steps of that search, which leave an interval of 1e-4."""
NOTHING_LEFT_OUT = "no class has two images to leave one out: settings for one shot, uncalibrated probabilities"


@dataclass(frozen=True)
class Chosen:
    """A classifier and its results on the left-out images.

    Attributes:
        setting: hyperparameters by name.
        classifier: W (D, C) float64.
        temperature: divisor of the logits f W.
        confidences: (n,) largest probability of each left-out image; n is 0 if none could be left out.
        right: (n,) bool, whether the prediction is right.
        note: one line on what could not be chosen, or "".
    """

    setting: dict[str, float]
    classifier: Tensor
    temperature: float
    confidences: Tensor
    right: Tensor
    note: str


def choose(shots: FewShot, *, kind: str) -> Chosen:
    """Fit a kind of head with its best settings.

    Several parts are each divided by their own temperature, so that they speak of probabilities, and averaged.

    Args:
        shots: the few-shot images.
        kind: of `PARTS`.

    Raises:
        ParamsError: an unknown kind.
    """
    if kind not in PARTS:
        raise ParamsError(f"kind is {shown_value(kind)}; expected one of {', '.join(PARTS)}")
    can_be_left_out = shots.folds >= 0
    labels = shots.labels[can_be_left_out]
    parts = [_best_setting(shots, part=part) for part in PARTS[kind]]
    logits = []
    weights = []
    setting: dict[str, float] = {}
    for part in parts:
        scale = 1.0
        if len(parts) > 1:
            scale = 1 / (len(parts) * part.temperature)
        logits.append(scale * part.logits)
        weights.append(scale * part.setting.fit(shots))
        # The parts have hyperparameters of different names, so none overwrites another's.
        setting |= dataclasses.asdict(part.setting)
    summed = torch.stack(logits).sum(dim=0)
    temperature = parts[0].temperature
    if len(parts) > 1:
        temperature = fit_temperature(summed, labels)
    confidences, predictions = (summed / temperature).softmax(dim=1).max(dim=1)
    return Chosen(
        setting=setting,
        classifier=torch.stack(weights).sum(dim=0),
        temperature=temperature,
        confidences=confidences,
        right=predictions == labels,
        note="" if len(labels) else NOTHING_LEFT_OUT,
    )


@dataclass(frozen=True)
class _Part:
    """A setting with its logits of the left-out images, (n, C), and their best temperature."""

    setting: Prototypes | Ridge
    logits: Tensor
    temperature: float


def _best_setting(shots: FewShot, *, part: Kind) -> _Part:
    rows = shots.folds >= 0
    labels = shots.labels[rows]
    if not len(labels):
        return _Part(part.one_shot(shots), shots.one_hot[rows], 1.0)
    enough = 0.0
    counted: list[tuple[int, Prototypes | Ridge, Tensor]] = []
    for setting, logits in part.left_out(shots):
        n_correct = int((logits[rows].argmax(dim=1) == labels).sum())
        enough = max(enough, n_correct - slack(n_correct, n_images=len(labels)))
        counted.append((n_correct, setting, logits[rows]))
        # The logits of settings that are already too bad are dropped at once: with many classes they are large.
        counted = [one for one in counted if one[0] >= enough]
    candidates = []
    for _, setting, logits in counted:
        candidates.append(_Part(setting, logits, fit_temperature(logits, labels)))
    return min(candidates, key=lambda one: log_loss(one.logits, labels, temperature=one.temperature))


def slack(n_correct: int, *, n_images: int) -> float:
    """Difference of counts that means nothing: a quarter of the standard error."""
    # As if one image were wrong, or right, where all or none are: such a share would have no standard error.
    share = min(max(n_correct, 1), n_images - 1) / n_images
    variance = n_images * share * (1 - share)
    return SLACK * math.sqrt(variance)


def log_loss(logits: Tensor, labels: Tensor, *, temperature: float) -> float:
    """Mean of -log p(label): (n, C), (n,) -> non-negative number."""
    total = 0.0
    for some_logits, some_labels in zip(logits.split(ROWS), labels.split(ROWS), strict=True):
        total += float(F.cross_entropy(some_logits / temperature, some_labels, reduction="sum"))
    return total / len(labels)


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
        # The sum of losses, not their mean: the more images there are, the less the prior counts.
        loss = log_loss(logits, labels, temperature=math.exp(log_temperature))
        prior = (log_temperature / PRIOR_STD) ** 2 / 2
        return len(labels) * loss + prior

    if not len(labels):
        return 1.0
    golden = (math.sqrt(5) - 1) / 2
    low = -LARGEST
    high = LARGEST
    left = high - golden * (high - low)
    right = low + golden * (high - low)
    cost_left = cost(left)
    cost_right = cost(right)
    for _ in range(STEPS):
        # The golden ratio makes one of the two inner points serve the next step, too.
        if cost_left <= cost_right:
            high = right
            right = left
            cost_right = cost_left
            left = high - golden * (high - low)
            cost_left = cost(left)
        else:
            low = left
            left = right
            cost_left = cost_right
            right = low + golden * (high - low)
            cost_right = cost(right)
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
    descending = confidences[order]
    n_wrong = (~right[order]).cumsum(0)
    n_all = torch.arange(1, len(order) + 1)
    # 1e-9, because (1 - 0.9) * 10 is a little less than 1 in floats.
    good = (n_wrong + 1) <= (1 - precision) * (n_all + 1) + 1e-9
    last = torch.ones_like(good)
    last[:-1] = descending[1:] < descending[:-1]  # equal confidences stay together
    enough = (good & last).nonzero()[:, 0]
    if not len(enough):
        return math.inf
    return float(descending[enough[-1]])
