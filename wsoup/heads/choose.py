"""Kind, hyperparameters, temperature and threshold of a head, by leave-one-shot-out on the few-shot images.

Fold j leaves out shot j of each class. A setting is judged by how many left-out images it gets right, among equals by
their log loss at its best temperature, then by its place in the list. No function here takes other images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wsoup.core.errors import ParamsError
from wsoup.heads.calibrate import log_loss, temperature
from wsoup.heads.fewshot import FewShot
from wsoup.heads.kinds import KINDS, Setting

NOTHING_LEFT_OUT = "no class has two images, so nothing can be left out: defaults, and uncalibrated probabilities"


@dataclass(frozen=True)
class Chosen:
    """A setting, and how it did on the images left out.

    Attributes:
        kind: of `KINDS`.
        setting: its hyperparameters.
        n_correct, n_images: of the left-out images; 0 of 0 where nothing could be left out.
        temperature: that logits are divided by.
        confidences: (n_images,) largest probability of each.
        right: (n_images,) bool, whether that answer is right.
        note: a line on what could not be chosen, "" where all could.
    """

    kind: str
    setting: Setting
    n_correct: int
    n_images: int
    temperature: float
    confidences: Tensor
    right: Tensor
    note: str


def choose(shots: FewShot, *, kinds: Sequence[str]) -> Chosen:
    """The best setting of some kinds.

    Args:
        shots: all that may be seen.
        kinds: names of `KINDS`; among equals the first wins.

    Raises:
        ParamsError: no kinds, or one that there is not.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise ParamsError(f"kind is {unknown[0] if unknown else 'none'!r}; expected one of {', '.join(KINDS)}")
    if not shots.n_folds:
        none = torch.zeros(0, dtype=torch.float64)
        return Chosen(kinds[0], KINDS[kinds[0]].DEFAULT, 0, 0, 1.0, none, none.bool(), NOTHING_LEFT_OUT)
    rows = shots.folds >= 0
    labels = shots.labels[rows]
    best = (-1, math.inf)  # images right, log loss
    for kind in kinds:
        for setting, logits in KINDS[kind].left_out(shots):
            judged = logits[rows]
            n_correct = int((judged.argmax(dim=1) == labels).sum())
            if n_correct < best[0]:
                continue
            degree = temperature(judged, labels)
            loss = log_loss(judged, labels, temperature=degree)
            if n_correct > best[0] or loss < best[1]:
                best, chosen = (n_correct, loss), (kind, setting, judged, degree)
    kind, setting, judged, degree = chosen
    confidences, answers = (judged / degree).softmax(dim=1).max(dim=1)
    return Chosen(kind, setting, best[0], len(labels), degree, confidences, answers == labels, "")
