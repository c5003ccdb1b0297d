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

    def text_index(self, iteration: int) -> int:
        """Which texts an iteration trains with, counted on past the last: those of the descriptor whose turn it is, or
        of one member of the soup after the other."""
        if self.finished is None:
            return iteration
        return self._descriptor(iteration, of=len(self.finished))

    def _descriptor(self, iteration: int, *, of: int) -> int:
        """The descriptor of an ensemble of `of` that an iteration trains."""
        return iteration * of // self.iterations

    def turn(self, iteration: int) -> tuple[int, int]:
        """The place of an iteration in the present turn, and the iterations of that turn.

        Each descriptor of an ensemble has a turn, as has each of two stages; all else is trained in a single one.
        """
        if iteration >= self.first_stage:
            return iteration - self.first_stage, self.iterations - self.first_stage
        if self.finished is None:
            return iteration, self.first_stage
        members = len(self.finished)
        descriptor = self._descriptor(iteration, of=members)
        first = math.ceil(descriptor * self.iterations / members)
        after = math.ceil((descriptor + 1) * self.iterations / members)
        return iteration - first, after - first

    def is_next_descriptor(self, iteration: int) -> bool:
        """Whether an ensemble trains another descriptor from this iteration on."""
        if self.finished is None or iteration == 0:
            return False
        place, _ = self.turn(iteration)
        return place == 0

    def begin_descriptor(self, iteration: int) -> None:
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
        last = self._descriptor(max(iteration - 1, 0), of=len(self.finished))
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
