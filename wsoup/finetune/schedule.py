"""The learning rate during training, as a factor of a method's own."""

import math
from collections.abc import Callable

from wsoup.finetune.optimizer_params import ScheduleParams

RateFactor = Callable[[int, int], float]
"""An iteration, and how many there are -> what the learning rate is multiplied by."""


def rate_factor(schedule: ScheduleParams | None, *, learning_rate: float) -> RateFactor:
    """The rate of each iteration over `learning_rate`; without a schedule it is constant.

    As torch's CosineAnnealingLR, after Dassl's ConstantWarmupScheduler if there is a warm-up (KaiyangZhou/
    Dassl.pytorch, dassl/optim/lr_scheduler.py), where a part is an epoch of theirs.
    """
    if schedule is None:
        return lambda iteration, iterations: 1.0
    warmup = schedule.warmup
    n_warm = 0 if warmup is None else warmup.parts

    def factor(iteration: int, iterations: int) -> float:
        parts = schedule.parts or iterations
        part = iteration * parts // iterations
        if warmup is not None and part < n_warm:
            return warmup.learning_rate / learning_rate
        if schedule.kind == "constant":
            return 1.0
        least = schedule.least / learning_rate
        return least + (1 - least) * (1 + math.cos(math.pi * (part - n_warm) / parts)) / 2

    return factor
