"""The trained weights and their exponential moving average, which is what is evaluated.

With cross entropy, soft descriptors are a CoOp ensemble. The authors train every descriptor in a run of its own
(Chris210634/word_soups, train_soft_descriptors.py) and keep nothing else of that run; here the runs are consecutive
parts of one training.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

SOFT = "soft_descriptors"


class AveragedWeights:
    """Trained parameters, their initial values and their averages.

    Args:
        parameters: what is trained, by name, at initial values.
        ema: share of the old average that each iteration keeps.
        iterations: of the whole training.
        ensemble: whether each soft descriptor is trained on its own.

    Attributes:
        average: the averages by name; of an ensemble, of the descriptor that is being trained.
        finished: of an ensemble, its descriptors (M, n, width), those not yet trained at their initial values; or None.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], *, ema: float, iterations: int, ensemble: bool) -> None:
        self.parameters = parameters
        self.ema = ema
        self.iterations = iterations
        self.start = {name: p.detach().clone() for name, p in parameters.items()}
        self.average = {name: p.clone() for name, p in self.start.items()}
        self.finished = self.start[SOFT].clone() if ensemble else None

    def member(self, iteration: int) -> int:
        """What an iteration trains: one member of an ensemble after the other, or all in turn."""
        if self.finished is None:
            return iteration
        return iteration * len(self.finished) // self.iterations

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

    def update(self) -> None:
        """average = ema x average + (1 - ema) x weights."""
        weights = [self.parameters[name].detach() for name in self.average]
        # One call for all parameters: on a GPU hundreds of small ones would each cost a launch.
        torch._foreach_lerp_(list(self.average.values()), weights, 1 - self.ema)

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
