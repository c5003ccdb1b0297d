"""Classes with fewer images than a run would use: few to learn from, or none to test on."""

from collections.abc import Sequence

import numpy as np

from wsoup.datasets.listing import Listing, some
from wsoup.params.inputs import DatasetParams

SHOWN = 3
"""Classes that are named."""


def only_class(class_names: Sequence[str]) -> str:
    """A line about a source of one class."""
    return f"the source has one class, {class_names[0]!r}; soups and heads tell two or more apart: add classes"


def thin_classes(listing: Listing, *, params: DatasetParams, shots: int) -> list[str]:
    """A line about classes with fewer training images than shots, and one about those without test images."""
    lines = []
    # The user's own few-shot splits say themselves how many they take.
    if params.role == "source" and params.fewshot_pickles is None:
        lines += few_to_learn_from(listing, shots=shots)
    return lines + none_to_test_on(listing, test_split=params.test_split)


def few_to_learn_from(listing: Listing, *, shots: int) -> list[str]:
    """A line about classes with fewer training images than shots, the smallest first, if there are any."""
    names = listing.class_names
    counts = _counts(listing, split="train")
    small = [label for label in np.argsort(counts, kind="stable").tolist() if counts[label] < shots]
    if not small:
        return []
    shown = ", ".join(f"{names[label]!r} ({counts[label]})" for label in small[:SHOWN])
    if len(small) > SHOWN:
        shown += f" and {len(small) - SHOWN:,} more"
    share = f"{len(small):,} of {len(names):,} classes"
    return [f"fewer than {shots} training images, all of which are used, in {share}: {shown}"]


def none_to_test_on(listing: Listing, *, test_split: str) -> list[str]:
    """A line about classes without test images, if there are any."""
    counts = _counts(listing, split=test_split)
    untested = [listing.class_names[label] for label in np.flatnonzero(counts == 0).tolist()]
    if not untested:
        return []
    return [f"no test images, so accuracies say nothing about them: {some(untested)}"]


def _counts(listing: Listing, *, split: str) -> np.ndarray:
    """(C,) images of each class."""
    return np.bincount(listing.split(split).labels, minlength=len(listing.class_names))
