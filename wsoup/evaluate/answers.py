"""What rows get right on one dataset: one pass over its images, from which counts, verdicts and flips are all taken.

The pass goes by blocks of images. Of each block only counts are kept, which images the judged rows get right, and what
the shown rows predict, so that test features may be larger than memory.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from wsoup.core.alignment import mean_cosines
from wsoup.core.calibration import Calibration
from wsoup.core.class_texts import ClassTexts
from wsoup.core.modes import MODES, Mode
from wsoup.core.scoring import Scores, classifiers_at_once, suited_to
from wsoup.evaluate.right import all_seeds, random_beside
from wsoup.evaluate.rows import BASELINES, CLASS_NAME, CUPL, ENSEMBLE, GPT, TEMPLATES, Row, row_name
from wsoup.evaluate.testsets import TestSet


@dataclass(frozen=True)
class InMode:
    """What R rows make of N images in one mode.

    Attributes:
        right_by_class: correct images of each class, (R, C) int64.
        alignment, uniformity: of each row (`wsoup.core.alignment.mean_cosines`).
        calibration_error, log_likelihood: of each row (`wsoup.core.calibration`).
        right: which images a row gets right (`wsoup.evaluate.right.right_by_row`), by its position; of the judged rows.
        predicted: labels that a row predicts, (N,) int32, by its position; of the shown rows.
    """

    right_by_class: Tensor
    alignment: Sequence[float]
    uniformity: Sequence[float]
    calibration_error: Sequence[float]
    log_likelihood: Sequence[float]
    right: Mapping[int, bytes]
    predicted: Mapping[int, np.ndarray]


@dataclass(frozen=True)
class Answers:
    """What R rows make of the images of one dataset, in both modes.

    Attributes:
        test: the dataset.
        rows: the rows.
        judged: positions of the rows of which right images are kept.
        by_mode: what they make of them in each mode, or by each way of weighing their texts.
    """

    test: TestSet
    rows: Sequence[Row]
    judged: Sequence[int]
    by_mode: Mapping[str, InMode]


class _Tally:
    """Counts of R classifiers in one mode, filled block by block.

    Args:
        means: R mean text features of the classes, (C, D) each.
        mode: how they are used.
        n_images: N.
        logit_scale: of the model.
        judged: positions of classifiers of which it is kept which images they get right.
        shown: positions of classifiers of which it is kept what they predict.
    """

    def __init__(
        self,
        means: Sequence[Tensor],
        *,
        mode: Mode,
        n_images: int,
        logit_scale: float,
        judged: Sequence[int],
        shown: Sequence[int],
    ) -> None:
        self.means = means
        self.mode = mode
        self.n_images = n_images
        self.logit_scale = logit_scale
        self.calibration = Calibration(len(means), device=means[0].device)
        self.n_classes = len(means[0])
        self.right_by_class = torch.zeros(len(means), self.n_classes, dtype=torch.int64, device=means[0].device)
        # Made at once: a small result kept from every block would keep malloc from using the block's memory again.
        self.right = {r: np.empty(math.ceil(n_images / 8), dtype=np.uint8) for r in judged}
        self.predicted = {r: np.empty(n_images, dtype=np.int32) for r in shown}

    def add(self, images: Tensor, labels: Tensor, block: slice) -> None:
        """Count the images of a block: features (n, D), labels (n,), and their place among all."""
        together = classifiers_at_once(self.n_classes, at_once=suited_to(images.device))
        for start in range(0, len(self.means), together):
            scores = Scores(images, self._classifiers(slice(start, start + together)))
            predicted, made = scores.answers(labels, logit_scale=self.logit_scale)  # (r, n)
            self.calibration.add(made, right=predicted == labels, first=start)
            for r, of_row in enumerate(predicted, start=start):
                self._add_row(r, of_row, labels, block)

    def _classifiers(self, rows: slice) -> Tensor:
        """(r, C, D), made as they are used: those of all rows would take as much memory as all means."""
        return ClassTexts(torch.stack(list(self.means[rows]))).classifier(self.mode)

    def _add_row(self, r: int, predicted: Tensor, labels: Tensor, block: slice) -> None:
        right = predicted == labels
        self.right_by_class[r] += torch.bincount(labels[right], minlength=self.n_classes)
        if r in self.right:
            bits = np.packbits(right.cpu().numpy())
            # A block begins with a whole byte.
            first = block.start // 8
            self.right[r][first : first + len(bits)] = bits
        if r in self.predicted:
            self.predicted[r][block] = predicted.cpu().numpy()

    def finished(self, sums: Tensor) -> InMode:
        """The counts, and the cosines with images whose sums by class are `sums` (C, D)."""
        alignment = []
        uniformity = []
        for r in range(len(self.means)):
            own, others = mean_cosines(self._classifiers(slice(r, r + 1)), sums=sums, n_images=self.n_images)
            alignment.append(float(own))
            uniformity.append(float(others))
        packed = {r: bits.tobytes() for r, bits in self.right.items()}
        return InMode(
            self.right_by_class.cpu(),
            alignment,
            uniformity,
            self.calibration.errors(self.n_images),
            self.calibration.log_likelihoods(self.n_images),
            packed,
            self.predicted,
        )


def answer(
    rows: Sequence[tuple[Row, Tensor]],
    *,
    test: TestSet,
    logit_scale: float,
    soups: Sequence[str] = (),
    drawn: int | None = None,
    shown: Sequence[Row] = (),
) -> Answers:
    """What some rows make of one dataset.

    Args:
        rows: R rows, each with the mean text features (C, D) of the dataset's classes.
        test: the dataset.
        logit_scale: of the model: cosines times this are logits.
        soups: names of soups that are judged: of their rows, and of class name, templates, GPT descriptors and CuPL, it
            is kept which images are right.
        drawn: number of texts in a judged row of a baseline that is drawn; None judges none of these.
        shown: rows of which it is kept what they predict.
    """
    only_rows = [row for row, _ in rows]
    means = [mean for _, mean in rows]
    n_images = len(test.labels)
    judged = judged_rows(only_rows, soups=soups, drawn=drawn)
    places = [only_rows.index(row) for row in shown]
    tallies: dict[Mode, _Tally] = {}
    for mode in MODES:
        tallies[mode] = _Tally(
            means, mode=mode, n_images=n_images, logit_scale=logit_scale, judged=judged, shown=places
        )
    sums = torch.zeros(means[0].shape, dtype=torch.float64, device=means[0].device)
    for block, images in test.blocks():
        labels = test.labels[block]
        # In the order of the images, so that blocks change no bit.
        sums.index_add_(0, labels, images.double())
        for tally in tallies.values():
            tally.add(images, labels, block)
    by_mode: dict[str, InMode] = {mode: tally.finished(sums) for mode, tally in tallies.items()}
    return Answers(test, only_rows, judged, by_mode)


def judged_rows(rows: Sequence[Row], *, soups: Sequence[str], drawn: int | None = None) -> list[int]:
    """Positions of the judged ones of some rows: those of shared texts at full size, then those by class.

    Baselines that are drawn have the size that tables show, `drawn`: more of their texts are evaluated for the curves.
    """
    drawn_names = {method.name for method in BASELINES if method.drawn}
    lists = {row.method for row in rows if row.method.endswith(TEMPLATES)}
    names = {CLASS_NAME.name, ENSEMBLE.name, GPT.name, CUPL.name, *lists, *drawn_names}
    for name in soups:
        names |= {row_name(name), random_beside(name), all_seeds(name)}
    return at_table_size(rows, methods=names, drawn=drawn)


def at_table_size(rows: Sequence[Row], *, methods: Collection[str], drawn: int | None) -> list[int]:
    """Positions of some methods' rows at the size that tables show (`drawn`, or else the full one), without offsets."""
    drawn_names = {method.name for method in BASELINES if method.drawn}
    largest: dict[tuple[str, tuple[int, ...], str | None], int] = {}
    for r, row in enumerate(rows):
        is_whole = row.text is None and row.offsets == (0,)
        is_shown = row.method not in drawn_names or row.m == drawn
        if not (row.method in methods and is_whole and is_shown):
            continue
        key = (row.method, row.seeds, row.dataset)
        if key not in largest or len(row.texts) > len(rows[largest[key]].texts):
            largest[key] = r
    return list(largest.values())
