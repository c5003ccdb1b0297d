"""A CoOp ensemble: soft descriptors trained one after another, each on its own and from scratch.

The authors train every descriptor in a run of its own (Chris210634/word_soups, train_soft_descriptors.py) and keep
nothing else of that run. Here the runs are consecutive parts of one training.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from wsoup.finetune.params import MethodParams, ProdaLoss, SoftDescriptorsTune
from wsoup.finetune.student import Student

NAME = "soft_descriptors"


def ensemble_of(student: Student, *, method: MethodParams, iterations: int) -> Ensemble | None:
    """The ensemble that a method trains; None if it trains all its parameters together."""
    separate = isinstance(method.tune, SoftDescriptorsTune) and not isinstance(method.loss, ProdaLoss)
    return Ensemble(student, iterations=iterations) if separate else None


class Ensemble:
    """Which member each iteration trains, and the members trained so far.

    Args:
        student: before training.
        iterations: of the whole training, divided evenly.

    Attributes:
        finished: (M, n, width), the soft descriptors, those not yet trained at their initial values.
    """

    def __init__(self, student: Student, *, iterations: int) -> None:
        self.start = {name: p.detach().clone() for name, p in student.trained().items()}
        self.finished, self.iterations = self.start[NAME].clone(), iterations

    def member(self, iteration: int) -> int:
        """The member that an iteration trains."""
        return iteration * len(self.finished) // self.iterations

    def is_next(self, iteration: int) -> bool:
        """Whether an iteration is the first of a member other than the first."""
        return iteration > 0 and self.member(iteration) != self.member(iteration - 1)

    def averages(self, average: Mapping[str, Tensor], *, iteration: int) -> dict[str, Tensor]:
        """Averaged weights of the whole ensemble after so many iterations; all but the descriptors are restored."""
        member = self.member(max(iteration - 1, 0))
        descriptors = self.finished.clone()
        descriptors[member] = average[NAME][member]
        return {**self.start, NAME: descriptors}

    @torch.no_grad()
    def start_next(self, student: Student, average: dict[str, Tensor], *, iteration: int) -> None:
        """Keep the descriptor trained last, and reset weights and averages to their initial values."""
        self.finished = self.averages(average, iteration=iteration)[NAME]
        for name, parameter in student.trained().items():
            parameter.copy_(self.start[name])
            average[name].copy_(self.start[name])
