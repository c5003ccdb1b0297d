"""Rows whose texts are weighed by images without labels: AutoCLIP (2309.16414) and ZPE (2302.06235), two later rivals.

Both start from the texts of another row: the 80 templates, random texts, a soup. AutoCLIP sees one image at a time, and
ZPE all test images of a dataset, so that tables have them in a block of their own. ZPE's bank of other images, in the
paper LAION-400M's, is the source's few-shot images here, whose labels it does not see.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from wsoup.core.autoclip import AutoClip
from wsoup.core.calibration import Calibration, probabilities
from wsoup.core.class_texts import ClassTexts
from wsoup.core.modes import WEIGHINGS, Weighing
from wsoup.core.text_scores import images_at_once, text_scores
from wsoup.core.zpe import sureness, zpe_bias, zpe_selection, zpe_weights
from wsoup.evaluate.answers import Answers, InMode, at_table_size
from wsoup.evaluate.right import pack_right
from wsoup.evaluate.rows import Row, methods
from wsoup.evaluate.testsets import TestSet
from wsoup.evaluate.text_plan import Classifiers
from wsoup.towers.features import read_features
from wsoup.towers.logit_scale import logit_scale_of
from wsoup.towers.run import Run

Score = Callable[[Tensor], Tensor]
"""Scores of n images for C classes: (n, D) -> (n, C)."""


class Bank(NamedTuple):
    """What ZPE knows besides a dataset's images.

    Attributes:
        mean_image: (D,) float32, mean image features of other images.
        logit_scale: of the model.
    """

    mean_image: Tensor
    logit_scale: float


def bank_of(run: Run) -> Bank:
    """The source's few-shot images of all seeds, and the model's logit scale.

    Raises:
        MissingError, MismatchError: there are no features of them, or of another encoder.
    """
    stored = read_features(run.artifacts.features(run.source, split="train"), encoder=run.encoder.id)
    mean_image = torch.from_numpy(stored.features[:]).double().mean(dim=0).float()
    return Bank(mean_image.to(run.encoder.device), logit_scale_of(run.encoder.model))


def weighed_rows(rows: Sequence[Row], *, soups: Sequence[str], drawn: int) -> list[Row]:
    """The rows, as tables show them, whose texts are weighed.

    Args:
        rows: of all sizes, with shared texts and with prompts by class.
        soups: names of the soups in params.yaml.
        drawn: ``evaluate.baseline_m``.
    """
    names = {method.name for method in methods(soups) if method.weighed}
    return [rows[r] for r in at_table_size(rows, methods=names, drawn=drawn)]


def weighed_answers(classifiers: Classifiers, *, tests: Sequence[TestSet], bank: Bank) -> list[Answers]:
    """What the weighed rows make of each dataset, by way of weighing; all are judged."""
    answers = []
    for test in tests:
        mean_image = _mean_image(test)
        by_way: dict[Weighing, list[_Counted]] = {way: [] for way in WEIGHINGS}
        rows = []
        for row, members in classifiers.weighed_of(test):
            rows.append(row)
            for way, score in scorers(members, test=test, mean_image=mean_image, bank=bank).items():
                counted = _count(score, test=test, logit_scale=bank.logit_scale, at_once=images_at_once(members))
                by_way[way].append(counted)
        if rows:
            by_mode: dict[str, InMode] = {way: _in_mode(of_rows) for way, of_rows in by_way.items()}
            answers.append(Answers(test, rows, range(len(rows)), by_mode))
    return answers


def scorers(members: Tensor, *, test: TestSet, mean_image: Tensor, bank: Bank) -> dict[Weighing, Score]:
    """How each way scores images of a dataset by texts (M, C, D), of which `mean_image` (D,) is the mean image."""
    of_texts = _zpe_scores(members, test=test, mean_image=mean_image, bank=bank)
    weighted = ClassTexts.of_members(members, weights=zpe_weights(of_texts)).mean
    selected = ClassTexts.of_members(members, weights=zpe_selection(of_texts)).mean
    return {
        "autoclip": AutoClip(members).scores_of,
        "zpe": lambda images: images @ weighted.T,
        "zpe_selection": lambda images: images @ selected.T,
    }


def _zpe_scores(members: Tensor, *, test: TestSet, mean_image: Tensor, bank: Bank) -> Tensor:
    """ZPE's score of each text, in logits: (M,)."""
    bias = zpe_bias(members, mean_image=mean_image, mean_of_bank=bank.mean_image)
    total = torch.zeros(len(members), dtype=torch.float64, device=members.device)
    for _, images in _blocks(test, at_once=images_at_once(members)):
        total += sureness(text_scores(images, members), bias=bias).double().sum(dim=0)
    return bank.logit_scale * (total / len(test.labels)).float()


def _blocks(test: TestSet, *, at_once: int) -> Iterator[tuple[slice, Tensor]]:
    """All images in order, so many at a time: their place and features (n, D)."""
    for block, images in test.blocks():
        for start in range(0, len(images), at_once):
            part = images[start : start + at_once]
            first = block.start + start
            yield slice(first, first + len(part)), part


def _mean_image(test: TestSet) -> Tensor:
    """(D,) float32."""
    sums = [images.double().sum(dim=0) for _, images in test.blocks()]
    return (torch.stack(sums).sum(dim=0) / len(test.labels)).float()


class _Counted(NamedTuple):
    """What one classifier makes of one dataset; attributes as in `InMode`."""

    right_by_class: Tensor
    alignment: float
    uniformity: float
    calibration_error: float
    log_likelihood: float
    right: bytes


def _count(score: Score, *, test: TestSet, logit_scale: float, at_once: int) -> _Counted:
    n_images, n_classes = len(test.labels), len(test.class_names)
    right = torch.zeros(n_images, dtype=torch.bool, device=test.labels.device)
    calibration = Calibration(1, device=test.labels.device)
    own_total = 0.0
    total = 0.0
    for block, images in _blocks(test, at_once=at_once):
        labels = test.labels[block]
        scores = score(images)
        predicted = scores.argmax(dim=1)
        right[block] = predicted == labels
        own_total += float(scores.gather(1, labels[:, None]).double().sum())
        total += float(scores.double().sum())
        made = probabilities(scores[:, None], labels, predicted[:, None], logit_scale=logit_scale)
        calibration.add(made, right=right[None, block])
    others = n_images * (n_classes - 1) if n_classes > 1 else float("nan")
    return _Counted(
        right_by_class=torch.bincount(test.labels[right], minlength=n_classes).cpu(),
        alignment=own_total / n_images,
        uniformity=(total - own_total) / others,
        calibration_error=calibration.errors(n_images)[0],
        log_likelihood=calibration.log_likelihoods(n_images)[0],
        right=pack_right(np.asarray(right.cpu())),
    )


def _in_mode(counted: Sequence[_Counted]) -> InMode:
    right: Mapping[int, bytes] = {r: each.right for r, each in enumerate(counted)}
    return InMode(
        right_by_class=torch.stack([each.right_by_class for each in counted]),
        alignment=[each.alignment for each in counted],
        uniformity=[each.uniformity for each in counted],
        calibration_error=[each.calibration_error for each in counted],
        log_likelihood=[each.log_likelihood for each in counted],
        right=right,
        predicted={},
    )
