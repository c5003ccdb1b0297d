"""How trained weights move: SGD with momentum, and a CoOp ensemble's members one after another.

`torch.optim.SGD` imports torch's compiler when it is constructed, which takes two seconds; the steps are its own.

A CoOp ensemble is soft descriptors trained each on its own and from scratch. The authors train every descriptor in a
run of its own (Chris210634/word_soups, train_soft_descriptors.py) and keep nothing else of that run. Here the runs are
consecutive parts of one training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

import torch
from torch import Tensor, nn
from torch.optim.sgd import sgd

from wsoup.finetune.params import MethodParams, ProdaLoss, SoftDescriptorsTune

if TYPE_CHECKING:  # it imports open_clip, and with it the compiler
    from wsoup.finetune.student import Student

NAME = "soft_descriptors"


class Group(TypedDict):
    """Parameters with one learning rate; a GradScaler needs the name `params`."""

    params: list[nn.Parameter]
    lr: float


class SGD:
    """Identical to `torch.optim.SGD` to the bit; both call the same functional implementation.

    With two entries every parameter is listed twice, as the authors' code lists those of the image tower for some
    methods: each step is two steps along the same gradient, sharing one momentum buffer. In the first step, when there
    is no buffer yet, both create one and the second is kept.

    Args:
        param_groups: the parameters; a GradScaler needs this name.
        momentum: share of the last step's direction that is kept.
        weight_decay: share of a parameter added to its gradient.
        entries: how often each parameter is listed, 1 or 2.
    """

    def __init__(self, param_groups: list[Group], *, momentum: float, weight_decay: float, entries: int) -> None:
        self.param_groups, self.momentum, self.weight_decay = param_groups, momentum, weight_decay
        self.entries, self.momentum_buffers = entries, dict[Tensor, Tensor]()

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        first = not self.momentum_buffers
        for group in self.param_groups * self.entries:
            gradients = {p: p.grad for p in group["params"] if p.grad is not None}
            buffers: list[Tensor | None] = [None if first else self.momentum_buffers.get(p) for p in gradients]
            sgd(
                list(gradients),
                list(gradients.values()),
                buffers,
                dampening=0,
                nesterov=False,
                maximize=False,
                weight_decay=self.weight_decay,
                momentum=self.momentum,
                lr=group["lr"],
            )
            self.momentum_buffers |= {p: b for p, b in zip(gradients, buffers, strict=True) if b is not None}


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
