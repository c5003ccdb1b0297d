"""SGD with momentum: torch's own function of that name, which also works in `torch.optim.SGD`.

The class beside it imports torch's compiler when it is made, which takes two seconds and is never used here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim.sgd import sgd


class SGD:
    """What `torch.optim.SGD` does, to the bit.

    With two entries every parameter stands in its list twice, as the authors' code has those of the image tower in some
    methods: each step is two along the same gradients, with one momentum. In the first, where neither entry has a
    momentum yet, both start one and the second stays.

    Args:
        param_groups: {"params": tensors, "lr": learning rate}; a GradScaler asks for this name.
        momentum: how much of the last step's direction stays.
        weight_decay: share of a parameter that is added to its gradient.
        entries: how often a parameter stands in the list, 1 or 2.
    """

    def __init__(
        self, param_groups: list[dict[str, Any]], *, momentum: float, weight_decay: float, entries: int
    ) -> None:
        self.param_groups, self.momentum, self.weight_decay = param_groups, momentum, weight_decay
        self.entries, self.directions = entries, dict[Tensor, Tensor | None]()

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        first = not self.directions
        for group in self.param_groups * self.entries:
            moved = {p: p.grad for p in group["params"] if p.grad is not None}
            directions = [None if first else self.directions.get(p) for p in moved]
            options = {"weight_decay": self.weight_decay, "momentum": self.momentum, "lr": group["lr"]}
            sgd(list(moved), list(moved.values()), directions, dampening=0, nesterov=False, maximize=False, **options)
            self.directions.update(zip(moved, directions, strict=True))
