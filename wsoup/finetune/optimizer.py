"""SGD for the trained parameters, with a learning rate of their own for text prompts.

Its arithmetic is torch's own function `sgd`. The class around that, `torch.optim.SGD`, imports torch's compiler when it
is made, 1.4 processor seconds in each finetuning stage, and the compiler is never used here.
"""

from collections.abc import Mapping, Sequence
from typing import TypedDict

import torch
from torch import Tensor, nn
from torch.optim.sgd import sgd

from wsoup.finetune.params import FinetuneParams, MethodParams

TEXT_PROMPTS = ("soft_prompt", "deep_prompts", "soft_descriptors")
"""Parameters whose learning rate is multiplied by `prompt_factor`."""


class Group(TypedDict):
    """Parameters that share a learning rate."""

    params: list[nn.Parameter]
    lr: float


class SGD:
    """What `torch.optim.SGD` does, to the bit.

    With two steps it is what that does where the authors' code lists every parameter twice: two steps along one
    gradient, sharing a momentum. In the first iteration, when there is no momentum yet, both steps begin one and the
    second is kept.

    Args:
        param_groups: parameters with their learning rates; a GradScaler asks for this name.
        momentum: how much of the last step's direction stays.
        weight_decay: share of a parameter that is added to its gradient.
        steps: along each gradient, 1 or 2.

    Attributes:
        momenta: direction of each parameter's last step.
    """

    def __init__(self, param_groups: Sequence[Group], *, momentum: float, weight_decay: float, steps: int = 1) -> None:
        self.param_groups = param_groups
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.steps = steps
        self.momenta: dict[Tensor, Tensor] = {}

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        begins = not self.momenta
        for _ in range(self.steps):
            if begins:
                self.momenta.clear()
            self._move()

    def _move(self) -> None:
        for group in self.param_groups:
            parameters: list[Tensor] = []
            gradients: list[Tensor] = []
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameters.append(parameter)
                    gradients.append(parameter.grad)
            momenta = [self.momenta.get(parameter) for parameter in parameters]
            sgd(
                parameters,
                gradients,
                momenta,
                weight_decay=self.weight_decay,
                momentum=self.momentum,
                lr=group["lr"],
                dampening=0,
                nesterov=False,
                maximize=False,
            )
            # `sgd` has put the first direction where there was None.
            for moved, direction in zip(parameters, momenta, strict=True):
                if direction is not None:
                    self.momenta[moved] = direction


def make_optimizer(parameters: Mapping[str, nn.Parameter], *, method: MethodParams, shared: FinetuneParams) -> SGD:
    """The optimizer of parameters by name; text prompts have `prompt_factor` times the learning rate of the others."""
    rate = method.learning_rate
    prompts = [p for name, p in parameters.items() if name.startswith(TEXT_PROMPTS)]
    others = [p for name, p in parameters.items() if not name.startswith(TEXT_PROMPTS)]
    groups: list[Group] = [{"params": prompts, "lr": rate * method.prompt_factor}, {"params": others, "lr": rate}]
    # Only tuners inside blocks have this key.
    lists_twice = getattr(method.tune, "opens", "both") == "image_twice"
    return SGD(groups, momentum=shared.momentum, weight_decay=shared.weight_decay, steps=2 if lists_twice else 1)
