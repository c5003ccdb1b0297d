"""Choose a head's hyperparameters, temperature and abstention threshold by leave-one-shot-out.

Fold j leaves out shot j of each class. Among a kind's settings whose left-out accuracy is the best or indistinguishable
from it, the one with the smallest log loss at its best temperature wins; ties go to the first. No function here sees
any other image.
"""

import math
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.base.errors import ParamsError, shown_value
from wsoup.heads.fewshot import FewShot
from wsoup.heads.kinds import PARTS, LeftOut, Setting

SLACK = 0.25
"""Standard errors within which counts are equal: a few images cannot tell such settings apart."""
PRIOR_STD = 0.5
"""Standard deviation of the prior of log temperature, whose mean is 0: logits are in the model's own scale."""
LARGEST = 5.0
"""The search for log temperature runs from -5 to 5."""
ROWS = 256
"""Images at a time, whose logits stay in the processor's cache: three times as fast."""
LOGITS = 1 << 18
"""Logits at a time, so of fewer images where there are more than 1,024 classes: four times as fast with 10,000."""
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
    labels = shots.labels[shots.folds >= 0]
    # The only table of images by classes, used again and again: a new one might not fit where the last one was.
    table = torch.empty(len(labels), shots.n_classes, dtype=torch.float64)
    parts = [_best_setting(shots, kind=of_part, table=table) for of_part in PARTS[kind]]
    scales = [1.0]
    if len(parts) > 1:
        scales = [1 / (len(parts) * part.temperature) for part in parts]
    table.zero_()
    classifier = torch.zeros_like(shots.texts)
    setting: dict[str, float] = {}
    for part, scale in zip(parts, scales, strict=True):
        _add_left_out(table, shots, part=part, scale=scale)
        classifier += scale * part.setting.fit(shots)
        # The parts have hyperparameters of different names, so none overwrites another's.
        setting |= asdict(part.setting)
    temperature = parts[0].temperature
    if len(parts) > 1:
        temperature = fit_temperature(table, labels)
    confidences, predictions = _answers(table, temperature=temperature)
    return Chosen(
        setting=setting,
        classifier=classifier,
        temperature=temperature,
        confidences=confidences,
        right=predictions == labels,
        note="" if len(labels) else NOTHING_LEFT_OUT,
    )


@dataclass(frozen=True)
class _Choice:
    """A setting, heads of its kind without each fold, and the best temperature of their logits of left-out images."""

    setting: Setting
    left_out: LeftOut[Setting]
    temperature: float = 1.0
    loss: float = math.nan
    """Log loss of these logits at that temperature."""


def _best_setting(shots: FewShot, *, kind: type[Setting], table: Tensor) -> _Choice:
    """The best setting of a kind; `table` (n, C) of the left-out images is overwritten."""
    labels = shots.labels[shots.folds >= 0]
    left_out = kind.left_out(shots)
    if not len(labels):
        return _Choice(kind.one_shot(shots), left_out)
    # First all settings are counted, block by block. Then logits are made again for those whose counts are equal, which
    # are few.
    n_correct = dict.fromkeys(kind.settings(), 0)
    for setting, rows, logits in left_out.logits(kind.settings()):
        n_correct[setting] += int((logits.argmax(dim=1) == shots.labels[rows]).sum())
    enough = max(count - slack(count, n_images=len(labels)) for count in n_correct.values())
    candidates = []
    for setting, count in n_correct.items():
        if count >= enough:
            part = _Choice(setting, left_out)
            table.zero_()
            _add_left_out(table, shots, part=part, scale=1.0)
            temperature = fit_temperature(table, labels)
            loss = log_loss(table, labels, temperature=temperature)
            candidates.append(replace(part, temperature=temperature, loss=loss))
    return min(candidates, key=lambda one: one.loss)


def _add_left_out(table: Tensor, shots: FewShot, *, part: _Choice, scale: float) -> None:
    """Add a part's logits of the left-out images times a scale to a table of these images, (n, C)."""
    places = (shots.folds >= 0).cumsum(dim=0) - 1
    for _, rows, logits in part.left_out.logits([part.setting]):
        table[places[rows]] += scale * logits


def _answers(logits: Tensor, *, temperature: float) -> tuple[Tensor, Tensor]:
    """Largest probability and prediction of each image: (n, C) -> (n,), (n,)."""
    confidences = torch.empty(len(logits), dtype=torch.float64)
    predictions = torch.empty(len(logits), dtype=torch.int64)
    at_once = _rows_at_once(logits)
    for start in range(0, len(logits), at_once):
        block = slice(start, start + at_once)
        probabilities = (logits[block] / temperature).softmax(dim=1)
        confidences[block], predictions[block] = probabilities.max(dim=1)
    return confidences, predictions


def _rows_at_once(logits: Tensor) -> int:
    return min(ROWS, max(1, LOGITS // logits.shape[1]))


def slack(n_correct: int, *, n_images: int) -> float:
    """Difference of counts that means nothing: a quarter of the standard error."""
    # As if one image were wrong, or right, where all or none are: such a share would have no standard error.
    share = min(max(n_correct, 1), n_images - 1) / n_images
    variance = n_images * share * (1 - share)
    return SLACK * math.sqrt(variance)


def log_loss(logits: Tensor, labels: Tensor, *, temperature: float) -> float:
    """Mean of -log p(label): (n, C), (n,) -> non-negative number."""
    total = 0.0
    at_once = _rows_at_once(logits)
    for some_logits, some_labels in zip(logits.split(at_once), labels.split(at_once), strict=True):
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
