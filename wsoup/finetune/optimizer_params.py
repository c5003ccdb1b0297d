"""How a method is optimized where it names that itself: the kinds of `optimizer`, and `schedule`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from wsoup.params.section import NO_BOOLEAN, Iterations, NonNegative, Positive, Section

Momentum = Annotated[float, Field(ge=0, lt=1), NO_BOOLEAN]


class SgdOptimizer(Section):
    """SGD with a momentum and a weight decay of its own."""

    kind: Literal["sgd"]
    momentum: Momentum
    """Momentum (PromptSRC: 0.9)."""
    weight_decay: NonNegative
    """Weight decay (PromptSRC: 5e-4)."""


class AdamOptimizer(Section):
    """Adam, or with the weight decay beside the gradient AdamW; its averages keep 0.9 and 0.999."""

    kind: Literal["adam", "adamw"]
    weight_decay: NonNegative = 0.0
    """Weight decay."""
    epsilon: Positive = 1e-8
    """Added to the root of the mean squared gradient (ProLIP: 1e-4)."""


OptimizerParams = SgdOptimizer | AdamOptimizer


class WarmupParams(Section):
    """The first parts of training, at a rate of their own."""

    parts: Iterations
    """How many parts."""
    learning_rate: NonNegative
    """Their learning rate (PromptSRC: 1e-5)."""


class ScheduleParams(Section):
    """How the learning rate changes from part to part of training.

    Soft descriptors that are trained one after the other each go through all of it.
    """

    kind: Literal["constant", "cosine"]
    """constant, or half a cosine from the method's learning_rate to `least`."""
    parts: Iterations | None = None
    """Equal parts of training; the rate stays within one (PromptSRC: its epochs, 20). null: every iteration is one."""
    least: NonNegative = 0.0
    """The rate that the cosine ends at, after as many parts as training has."""
    warmup: WarmupParams | None = None
    """Parts before the cosine begins; it ends as many parts early, as Dassl's does. null: none."""
