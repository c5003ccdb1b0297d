"""The trained weights and their average, which is what is evaluated: exponential, or Gaussian over parts of training.

With cross entropy, soft descriptors are a CoOp ensemble. The authors train every descriptor in a run of its own
(Chris210634/word_soups, train_soft_descriptors.py) and keep nothing else of that run; here the runs are consecutive
parts of one training.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

SOFT = "soft_descriptors"
Share = Callable[[int], float]
"""How much of the average is new after an iteration, 0 to 1."""


def steady_share(*, ema: float) -> Share:
    """An exponential average, which keeps the share `ema` of itself in every iteration."""
    return lambda iteration: 1 - ema


def gaussian_shares(*, parts: int, mean: float, deviation: float, iterations: int) -> Share:
    """The mean of the weights after each of `parts` equal parts of training, by the density of a Gaussian at 1, 2, ...

    PromptSRC's aggregation of prompts (arXiv 2307.06948; muzairkhattak/PromptSRC, trainers/promptsrc.py), whose parts
    are epochs. Before the first part has ended the average is the initial values.
    """
    distances = (np.arange(1, parts + 1) - mean) / deviation
    # Logarithms, because a density far from its mean is zero in floating point, and the first average would be 0 / 0.
    log_sums = [-math.inf, *np.logaddexp.accumulate(-0.5 * distances**2).tolist()]

    def share(iteration: int) -> float:
        before = iteration * parts // iterations
        ended = (iteration + 1) * parts // iterations
        if ended == before:
            return 0.0
        return -math.expm1(log_sums[before] - log_sums[ended])

    return share


class AveragedWeights:
    """Trained parameters, their initial values and their averages.

    Args:
        parameters: what is trained, by name, at initial values.
        share: how much of the average is new after an iteration.
        iterations: of the whole training.
        ensemble: whether each soft descriptor is trained on its own.
        first_stage: iterations before a second stage of training; None if there is none.

    Attributes:
        average: the averages by name; of an ensemble, of the descriptor that is being trained.
        finished: of an ensemble, its descriptors (M, n, width), those not yet trained at their initial values; or None.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        *,
        share: Share,
        iterations: int,
        ensemble: bool,
        first_stage: int | None = None,
    ) -> None:
        self.parameters = parameters
        self.share = share
        self.iterations = iterations
        self.first_stage = iterations if first_stage is None else first_stage
        self.start = {name: p.detach().clone() for name, p in parameters.items()}
        self.average = {name: p.clone() for name, p in self.start.items()}
        self.finished = self.start[SOFT].clone() if ensemble else None

    def member(self, iteration: int) -> int:
        """What an iteration trains: one member of an ensemble after the other, or all in turn."""
        if self.finished is None:
            return iteration
        return iteration * len(self.finished) // self.iterations

    def turn(self, iteration: int) -> tuple[int, int]:
        """The place of an iteration among those of the member or the stage that it trains, and their number."""
        if iteration >= self.first_stage:
            return iteration - self.first_stage, self.iterations - self.first_stage
        if self.finished is None:
            return iteration, self.first_stage
        members = len(self.finished)
        member = self.member(iteration)
        first, after = (math.ceil(m * self.iterations / members) for m in (member, member + 1))
        return iteration - first, after - first

    def begins_member(self, iteration: int) -> bool:
        """Whether an iteration is the first of the second or a later member of an ensemble."""
        if self.finished is None or iteration == 0:
            return False
        return self.member(iteration) != self.member(iteration - 1)

    def begin_member(self, iteration: int) -> None:
        """Keep the descriptor trained last, and reset weights and averages to their initial values."""
        self.finished = self.averages(iteration)[SOFT]
        for name, parameter in self.parameters.items():
            parameter.detach().copy_(self.start[name])
            self.average[name].copy_(self.start[name])

    @torch.no_grad()
    def settle(self) -> None:
        """Set the weights to their averages."""
        for name, average in self.average.items():
            self.parameters[name].copy_(average)

    def restart(self, name: str) -> None:
        """Begin the average of one parameter anew, at its present values."""
        self.average[name].copy_(self.parameters[name].detach())

    def update(self, iteration: int) -> None:
        """average = (1 - share) x average + share x weights, after an iteration."""
        share = self.share(iteration)
        if share == 0:
            return
        weights = [self.parameters[name].detach() for name in self.average]
        # One call for all parameters: on a GPU hundreds of small ones would each cost a launch.
        torch._foreach_lerp_(list(self.average.values()), weights, share)

    def averages(self, iteration: int) -> Mapping[str, Tensor]:
        """The averaged weights after so many iterations; of an ensemble, of all its members."""
        if self.finished is None:
            return self.average
        last = self.member(max(iteration - 1, 0))
        descriptors = self.finished.clone()
        descriptors[last] = self.average[SOFT][last]
        # What was trained beside the descriptors is restored.
        return {**self.start, SOFT: descriptors}

    def state(self) -> dict[str, Tensor]:
        """The tensors that change in training, by kind and name."""
        tensors = {f"weight/{name}": p.detach() for name, p in self.parameters.items()}
        tensors |= {f"average/{name}": average for name, average in self.average.items()}
        if self.finished is not None:
            tensors["finished/"] = self.finished
        return tensors
