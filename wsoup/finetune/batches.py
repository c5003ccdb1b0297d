"""Which images make a batch: a function of (seed, iteration) alone, so that a killed training resumes with the same.

As in section 4 of arXiv 2311.13612 and the authors' sampler (Chris210634/word_soups, source/samplers.py), a batch holds
one image each of distinct classes; with fewer classes than the batch size, of all of them. Each round of whole batches
visits the classes in a new order, and each class cycles through its images. In the authors' sampler the next round
begins within the last batch of a round, which may then hold a class twice: see `wrapped_positions`.
"""

import numpy as np

from wsoup.core.draws import named_generator


def batch_positions(labels: np.ndarray, *, batch_size: int, seed: int, iteration: int) -> np.ndarray:
    """Images of a batch: (B,) positions of distinct classes, B = min(batch size, number of classes)."""
    by_class = _positions_by_class(labels)
    n_classes = len(by_class)
    size = min(batch_size, n_classes)
    # Classes that do not fill a batch wait for the next round, whose order is another.
    batches_a_round = n_classes // size
    turn, step = divmod(iteration, batches_a_round)
    class_order = named_generator(seed, "classes", turn).permutation(n_classes)
    first = step * size
    positions = []
    for c in class_order[first : first + size].tolist():
        images = by_class[c]
        # Every class shows one image in a round: all of them once, then all again in another order.
        cycle, index = divmod(turn, len(images))
        image_order = named_generator(seed, "images", c, cycle).permutation(len(images))
        position = images[image_order[index]]
        positions.append(int(position))
    return np.array(positions)


def wrapped_positions(labels: np.ndarray, *, batch_size: int, seed: int, iteration: int) -> np.ndarray:
    """As `batch_positions`, but with rounds that wrap within a batch (the authors' FastRandomSampler, samplers.py).

    N // B batches make an epoch, in which a class shows a different image in every round.
    """
    by_class = _positions_by_class(labels)
    size = min(batch_size, len(labels))
    batches_an_epoch = len(labels) // size
    epoch, batch = divmod(iteration, batches_an_epoch)
    n_classes = len(by_class)
    class_orders: dict[int, np.ndarray] = {}
    positions = []
    for place in range(batch * size, (batch + 1) * size):
        turn, rank = divmod(place, n_classes)
        if turn not in class_orders:
            class_orders[turn] = named_generator(seed, "rounds", epoch, turn).permutation(n_classes)
        c = int(class_orders[turn][rank])
        images = by_class[c]
        image_order = named_generator(seed, "images of a round", c, epoch).permutation(len(images))
        position = images[image_order[turn % len(images)]]
        positions.append(int(position))
    return np.array(positions)


def _positions_by_class(labels: np.ndarray) -> list[np.ndarray]:
    """Positions of the images of each class that has any, by label."""
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]
