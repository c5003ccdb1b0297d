"""Choose a head's hyperparameters by leave-one-shot-out.

Fold j leaves out shot j of each class. Of a kind's settings the most probable wins: its log loss at its best
temperature speaks for all left-out images, and a prior for what the texts know (`wsoup.heads.prior`). So with few
images a head stays near its texts, and with many the prior fades. A class whose only image cannot be left out is not
known to follow the others: the share of such classes is taken off the images' say. Ties go to the first setting. No
function here sees any other image.
"""

import math
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.base.errors import ParamsError, shown_value
from wsoup.heads.calibration import fit_temperature, rows_at_once
from wsoup.heads.fewshot import FewShot
from wsoup.heads.kinds import PARTS, LeftOut, Setting
from wsoup.heads.prior import PhotosPerText, photos_per_text

SPREAD = 0.7
"""Standard deviation of the prior of the log of how many photos a text counts as."""
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
    expected = photos_per_text(shots)
    parts = [_best_setting(shots, kind=of_part, expected=expected, table=table) for of_part in PARTS[kind]]
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
    cost: float = math.nan
    """Minus the log of the setting's probability given these logits, but for a constant."""


def _best_setting(shots: FewShot, *, kind: type[Setting], expected: PhotosPerText, table: Tensor) -> _Choice:
    """The best setting of a kind, given how many photos a text is expected to count as.

    `table` (n, C) of the left-out images is overwritten.
    """
    labels = shots.labels[shots.folds >= 0]
    left_out = kind.left_out(shots)
    if not len(labels):
        return _Choice(kind.of(expected.expected), left_out)
    candidates = []
    for setting in _allowed(kind.settings(), least=expected.least):
        part = _Choice(setting, left_out)
        table.zero_()
        _add_left_out(table, shots, part=part, scale=1.0)
        temperature = fit_temperature(table, labels)
        distance = math.log(setting.photos_per_text / expected.expected) / SPREAD
        cost = evidence(table, shots, temperature=temperature) + distance**2 / 2
        candidates.append(replace(part, temperature=temperature, cost=cost))
    return min(candidates, key=lambda one: one.cost)


def _allowed(settings: list[Setting], *, least: float) -> list[Setting]:
    """Those whose texts count as at least so many photos, or else the one closest to the texts alone."""
    return [setting for setting in settings if setting.photos_per_text >= least] or settings[:1]


def evidence(logits: Tensor, shots: FewShot, *, temperature: float) -> float:
    """What left-out images say against a setting: their number times their mean log loss, each class counting the same.

    Times the share of classes that have left-out images, since these say little of the others.

    Args:
        logits: (n, C) of the left-out images.
        shots: the few-shot images.
        temperature: divisor of the logits.
    """
    labels = shots.labels[shots.folds >= 0]
    sizes = torch.bincount(labels, minlength=shots.n_classes)
    n_with_some = int((sizes > 0).sum())
    weights = len(labels) / (n_with_some * sizes[labels].double())
    total = 0.0
    at_once = rows_at_once(logits)
    for some_logits, some_labels, some in zip(
        logits.split(at_once), labels.split(at_once), weights.split(at_once), strict=True
    ):
        losses = F.cross_entropy(some_logits / temperature, some_labels, reduction="none")
        total += float((some * losses).sum())
    return total * n_with_some / shots.n_classes


def _add_left_out(table: Tensor, shots: FewShot, *, part: _Choice, scale: float) -> None:
    """Add a part's logits of the left-out images times a scale to a table of these images, (n, C)."""
    places = (shots.folds >= 0).cumsum(dim=0) - 1
    for rows, logits in part.left_out.logits(part.setting):
        table[places[rows]] += scale * logits


def _answers(logits: Tensor, *, temperature: float) -> tuple[Tensor, Tensor]:
    """Largest probability and prediction of each image: (n, C) -> (n,), (n,)."""
    confidences = torch.empty(len(logits), dtype=torch.float64)
    predictions = torch.empty(len(logits), dtype=torch.int64)
    at_once = rows_at_once(logits)
    for start in range(0, len(logits), at_once):
        block = slice(start, start + at_once)
        probabilities = (logits[block] / temperature).softmax(dim=1)
        confidences[block], predictions[block] = probabilities.max(dim=1)
    return confidences, predictions
