"""Kind, hyperparameters, temperature and threshold of a head, by leave-one-shot-out on the few-shot images.

Fold j leaves out shot j of each class. Of a kind's settings that get most left-out images right, or next to no fewer,
the one with the least log loss at its best temperature is taken, then the first. Among kinds the first stays unless
another is right on more left-out images than by chance: those images look like the ones that the head is made of, and
prefer what fits them closely, which then errs on photos of another sort. No function here takes other images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wsoup.core.errors import ParamsError, shown_value
from wsoup.heads.calibrate import log_loss, temperature
from wsoup.heads.fewshot import FewShot
from wsoup.heads.kinds import KINDS, Setting

SLACK = 0.25
"""Standard errors of a count within which counts say nothing: few images cannot tell so near settings apart."""
SURE = 1.96
"""Standard errors by which another kind must be better (McNemar)."""
ANY = ("prototypes", "ridge", "gda")
"""Kinds to choose from where none is asked for, the first of them for one shot, or where none is better than by chance.

Tip-Adapter is not among them: it was below class means on photographs of 101 classes.
"""
NOTHING_LEFT_OUT = "no class has two images, so nothing can be left out: defaults, and uncalibrated probabilities"


@dataclass(frozen=True)
class Chosen:
    """A setting, and how it did on the images left out.

    Attributes:
        kind: of `KINDS`.
        setting: its hyperparameters.
        n_correct, n_images: of the left-out images; 0 of 0 where nothing could be left out.
        log_loss: of the left-out images at that temperature; NaN where there are none.
        temperature: that logits are divided by.
        confidences: (n_images,) largest probability of each.
        right: (n_images,) bool, whether that answer is right.
        note: a line on what could not be chosen, "" where all could.
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
    """The best setting of the kind that is taken.

    Args:
        shots: all that may be seen.
        kinds: names of `KINDS`; a later one must be better than by chance.

    Raises:
        ParamsError: no kinds, or one that there is not.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise ParamsError(
            f"kind is {shown_value(unknown[0]) if unknown else 'none'}; expected one of {', '.join(KINDS)}"
        )
    if not shots.n_folds:
        none = torch.zeros(0, dtype=torch.float64)
        return Chosen(kinds[0], KINDS[kinds[0]].DEFAULT, 0, 0, math.nan, 1.0, none, none.bool(), NOTHING_LEFT_OUT)
    chosen = _best(shots, kind=kinds[0])
    for kind in kinds[1:]:
        other = _best(shots, kind=kind)
        won, lost = int((other.right & ~chosen.right).sum()), int((chosen.right & ~other.right).sum())
        if won - lost > SURE * math.sqrt(won + lost):
            chosen = other
    return chosen


def _best(shots: FewShot, *, kind: str) -> Chosen:
    rows = shots.folds >= 0
    least = 0.0
    candidates: list[Chosen] = []
    for setting, logits in KINDS[kind].left_out(shots):
        n_correct = int((logits[rows].argmax(dim=1) == shots.labels[rows]).sum())
        least = max(least, n_correct - slack(n_correct, n_images=int(rows.sum())))
        if n_correct >= least:
            candidates.append(_judged(kind, setting, logits[rows], shots.labels[rows]))
    return min((one for one in candidates if one.n_correct >= least), key=lambda one: one.log_loss)


def slack(n_correct: int, *, n_images: int) -> float:
    """Images that are no difference: a quarter of the standard error of a count."""
    share = min(max(n_correct, 1), n_images - 1) / n_images
    return SLACK * math.sqrt(n_images * share * (1 - share))


def _judged(kind: str, setting: Setting, logits: Tensor, labels: Tensor) -> Chosen:
    degree = temperature(logits, labels)
    confidences, answers = (logits / degree).softmax(dim=1).max(dim=1)
    right = answers == labels
    loss = log_loss(logits, labels, temperature=degree)
    return Chosen(kind, setting, int(right.sum()), len(labels), loss, degree, confidences, right, "")
