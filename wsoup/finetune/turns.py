"""What is trained one member after the other, each from the beginning and by itself: a CoOp ensemble.

The authors train every soft descriptor of it in a run of its own (Chris210634/word_soups, train_soft_descriptors.py)
and keep nothing else of that run. Here the runs are the turns of one training.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from wsoup.finetune.params import MethodParams, ProdaLoss, SoftDescriptorsTune
from wsoup.finetune.student import Student

NAME = "soft_descriptors"


class Turns:
    """Whose turn each iteration is, and what earlier turns ended with.

    Args:
        student: before training.
        iterations: of the whole training, shared out evenly.

    Attributes:
        finished: (M, n, width), the soft descriptors with those of finished turns in place.
    """

    def __init__(self, student: Student, *, iterations: int) -> None:
        self.start = {name: p.detach().clone() for name, p in student.trained().items()}
        self.finished, self.iterations = self.start[NAME].clone(), iterations

    def of(self, iteration: int) -> int:
        """The member that this iteration trains."""
        return iteration * len(self.finished) // self.iterations

    def begins(self, iteration: int) -> bool:
        """Whether a turn begins here, and another has ended."""
        return iteration > 0 and self.of(iteration) != self.of(iteration - 1)

    def result(self, average: Mapping[str, Tensor], *, iteration: int) -> dict[str, Tensor]:
        """Averaged weights after so many iterations, of all turns; what learnt beside the descriptors is put back."""
        member = self.of(max(iteration - 1, 0))
        descriptors = self.finished.clone()
        descriptors[member] = average[NAME][member]
        return {**self.start, NAME: descriptors}

    @torch.no_grad()
    def start_over(self, student: Student, average: dict[str, Tensor], *, iteration: int) -> None:
        """Keep the descriptor whose turn has ended; weights and averages are what they were before training."""
        self.finished = self.result(average, iteration=iteration)[NAME]
        for name, parameter in student.trained().items():
            parameter.copy_(self.start[name])
            average[name].copy_(self.start[name])


def turns_of(student: Student, *, method: MethodParams, iterations: int) -> Turns | None:
    """The turns of a method's training; None where all is trained together."""
    alone = isinstance(method.tune, SoftDescriptorsTune) and not isinstance(method.loss, ProdaLoss)
    return Turns(student, iterations=iterations) if alone else None
