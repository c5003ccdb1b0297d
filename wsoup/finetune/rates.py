"""Learning rates that were tried on held-out images, and the one that is chosen; it imports no torch, as the report."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Tried:
    """What one learning rate made of the held-out images of all seeds."""

    learning_rate: float
    n_correct: int
    n_images: int


def best_rate(tried: Sequence[Tried]) -> float:
    """The rate with the most correct images, the lowest among equal ones."""
    return max(tried, key=lambda each: (each.n_correct, -each.learning_rate)).learning_rate
