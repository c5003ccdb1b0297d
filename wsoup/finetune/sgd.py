"""SGD with momentum, without `torch.optim.SGD`: constructing that imports torch's compiler, which takes two seconds."""

from typing import TypedDict

import torch
from torch import Tensor, nn
from torch.optim.sgd import sgd


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
