"""SGD and Adam for the trained parameters, with a learning rate of their own for text prompts.

Their arithmetic is torch's own functions `sgd`, `adam` and `adamw`. The classes around these, such as
`torch.optim.SGD`, import torch's compiler when they are made, 1.4 processor seconds in each finetuning stage, and the
compiler is never used here.
"""

from collections.abc import Mapping, Sequence
from typing import TypedDict

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from wsoup.finetune.optimizer_params import AdamOptimizer
from wsoup.finetune.params import FinetuneParams, MethodParams

TEXT_PROMPTS = ("soft_prompt", "deep_prompts", "soft_descriptors")
"""Parameters whose learning rate is multiplied by `prompt_factor`."""
MOMENTUM = "momentum"
MEAN, SQUARE, STEPS = "mean", "square", "steps"
BETAS = (0.9, 0.999)
"""How much Adam's means of gradients and of their squares keep in each step."""


class Group(TypedDict):
    """Parameters that share a learning rate."""

    params: list[nn.Parameter]
    lr: float


class Optimizer:
    """What `SGD` and `Adam` share: parameters, their rates and what is kept from step to step.

    Args:
        param_groups: parameters with their learning rates; a GradScaler asks for this name.
        keeps: names of what is kept of each parameter.

    Attributes:
        rate_factor: what the rates are multiplied by in the next step.
        kept: by name and parameter.
    """

    def __init__(self, param_groups: Sequence[Group], *, keeps: Sequence[str]) -> None:
        self.param_groups = param_groups
        self.rate_factor = 1.0
        self.kept: dict[str, dict[Tensor, Tensor]] = {name: {} for name in keeps}

    def forget(self) -> None:
        """Begin as if there had been no step."""
        for of_parameters in self.kept.values():
            of_parameters.clear()

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            parameters: list[Tensor] = []
            gradients: list[Tensor] = []
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameters.append(parameter)
                    gradients.append(parameter.grad)
            self.move(parameters, gradients, rate=group["lr"] * self.rate_factor)

    def move(self, parameters: list[Tensor], gradients: list[Tensor], *, rate: float) -> None:
        """Move parameters of one group along their gradients."""
        raise NotImplementedError


class SGD(Optimizer):
    """What `torch.optim.SGD` does, to the bit.

    With two steps it is what that does where the authors' code lists every parameter twice: two steps along one
    gradient, sharing a momentum. In the first iteration, when there is no momentum yet, both steps begin one and the
    second is kept.

    Args:
        param_groups: as of `Optimizer`.
        momentum: how much of the last step's direction stays.
        weight_decay: share of a parameter that is added to its gradient.
        steps: along each gradient, 1 or 2.
    """

    def __init__(self, param_groups: Sequence[Group], *, momentum: float, weight_decay: float, steps: int = 1) -> None:
        super().__init__(param_groups, keeps=(MOMENTUM,))
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.steps = steps

    def step(self) -> None:
        """Move every parameter that has a gradient."""
        begins = not self.kept[MOMENTUM]
        for _ in range(self.steps):
            if begins:
                self.forget()
            super().step()

    def move(self, parameters: list[Tensor], gradients: list[Tensor], *, rate: float) -> None:
        """One step along the gradients and the last direction."""
        momenta = [self.kept[MOMENTUM].get(parameter) for parameter in parameters]
        sgd(
            parameters,
            gradients,
            momenta,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=rate,
            dampening=0,
            nesterov=False,
            maximize=False,
        )
        # `sgd` has put the first direction where there was None.
        for moved, direction in zip(parameters, momenta, strict=True):
            if direction is not None:
                self.kept[MOMENTUM][moved] = direction


class Adam(Optimizer):
    """What `torch.optim.Adam` does, or with `decoupled` `torch.optim.AdamW`, to the bit.

    Args:
        param_groups: as of `Optimizer`.
        weight_decay: share of a parameter that is added to its gradient, or decoupled: taken off it, times the rate.
        epsilon: added to the root of the mean square.
        decoupled: whether the weight decay is beside the gradient.
    """

    def __init__(self, param_groups: Sequence[Group], *, weight_decay: float, epsilon: float, decoupled: bool) -> None:
        super().__init__(param_groups, keeps=(MEAN, SQUARE, STEPS))
        self.weight_decay = weight_decay
        self.epsilon = epsilon
        self.arithmetic = adamw if decoupled else adam

    def move(self, parameters: list[Tensor], gradients: list[Tensor], *, rate: float) -> None:
        """One step along the mean gradient over the root of the mean square."""
        for parameter in parameters:
            if parameter not in self.kept[STEPS]:
                self.kept[MEAN][parameter] = torch.zeros_like(parameter)
                self.kept[SQUARE][parameter] = torch.zeros_like(parameter)
                # Where torch keeps it on every device.
                self.kept[STEPS][parameter] = torch.tensor(0.0)
        self.arithmetic(
            parameters,
            gradients,
            [self.kept[MEAN][parameter] for parameter in parameters],
            [self.kept[SQUARE][parameter] for parameter in parameters],
            [],
            [self.kept[STEPS][parameter] for parameter in parameters],
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=rate,
            weight_decay=self.weight_decay,
            eps=self.epsilon,
            maximize=False,
        )


def make_optimizer(
    parameters: Mapping[str, nn.Parameter], *, method: MethodParams, shared: FinetuneParams
) -> Optimizer:
    """The optimizer of parameters by name; text prompts have `prompt_factor` times the learning rate of the others."""
    rate = method.learning_rate
    prompts = [p for name, p in parameters.items() if name.startswith(TEXT_PROMPTS)]
    others = [p for name, p in parameters.items() if not name.startswith(TEXT_PROMPTS)]
    groups: list[Group] = [{"params": prompts, "lr": rate * method.prompt_factor}, {"params": others, "lr": rate}]
    own = method.optimizer
    if isinstance(own, AdamOptimizer):
        return Adam(groups, weight_decay=own.weight_decay, epsilon=own.epsilon, decoupled=own.kind == "adamw")
    # Without an optimizer of its own a method is trained as all others are.
    settings = own or shared
    # Only tuners inside blocks have this key.
    lists_twice = getattr(method.tune, "opens", "both") == "image_twice"
    return SGD(groups, momentum=settings.momentum, weight_decay=settings.weight_decay, steps=2 if lists_twice else 1)
