"""Which images make a batch: a function of (seed, iteration) alone, so that a killed training resumes with the same.

As in section 4 of arXiv 2311.13612 and the authors' sampler (Chris210634/word_soups, source/samplers.py), a batch holds
one image each of distinct classes; with fewer classes than the batch size, of all of them. Each round of whole batches
visits the classes in a new order, and each class cycles through its images. In the authors' sampler the next round
begins within the last batch of a round, which may then hold a class twice: see `wrapped_positions`.
"""

import numpy as np

from wsoup.core.draws import named_generator


class ClassImages:
    """The images of each class, grouped once, since looking for a class in all labels at each step takes long.

    Args:
        labels: (n,) int of all images; a label that no image has is no class here.
    """

    def __init__(self, labels: np.ndarray) -> None:
        _, sizes = np.unique(labels, return_counts=True)
        by_class = np.argsort(labels, kind="stable")
        self.of_class: list[np.ndarray] = np.split(by_class, np.cumsum(sizes)[:-1])
        self.n_images = len(labels)
        self.n_classes = len(sizes)
        self._orders: dict[object, tuple[tuple[object, ...], np.ndarray]] = {}

    def order_of_classes(self, *names: object) -> np.ndarray:
        """The permutation (C,) of the classes that these names draw."""
        return self._order("classes", names, size=self.n_classes)

    def order_of_images(self, c: int, *names: object) -> np.ndarray:
        """The permutation of class c's images that these names draw: positions among all images."""
        images = self.of_class[c]
        return images[self._order(c, names, size=len(images))]

    def _order(self, owner: object, names: tuple[object, ...], *, size: int) -> np.ndarray:
        """Draw a permutation, or take the owner's last one, which many steps in a row ask for."""
        if owner in self._orders:
            last_names, last_order = self._orders[owner]
            if last_names == names:
                return last_order
        order = named_generator(*names).permutation(size)
        self._orders[owner] = (names, order)
        return order


def batch_positions(images: ClassImages, *, batch_size: int, seed: int, iteration: int) -> np.ndarray:
    """Images of a batch: (B,) positions of distinct classes, B = min(batch size, number of classes)."""
    size = min(batch_size, images.n_classes)
    # Classes that do not fill a batch wait for the next round, whose order is another.
    batches_a_round = images.n_classes // size
    turn, step = divmod(iteration, batches_a_round)
    class_order = images.order_of_classes(seed, "classes", turn)
    first = step * size
    positions = []
    for c in class_order[first : first + size].tolist():
        # Every class shows one image in a round: all of them once, then all again in another order.
        cycle, index = divmod(turn, len(images.of_class[c]))
        image_order = images.order_of_images(c, seed, "images", c, cycle)
        positions.append(int(image_order[index]))
    return np.array(positions)


def wrapped_positions(images: ClassImages, *, batch_size: int, seed: int, iteration: int) -> np.ndarray:
    """As `batch_positions`, but with rounds that wrap within a batch (the authors' FastRandomSampler, samplers.py).

    N // B batches make an epoch, in which a class shows a different image in every round.
    """
    size = min(batch_size, images.n_images)
    batches_an_epoch = images.n_images // size
    epoch, batch = divmod(iteration, batches_an_epoch)
    positions = []
    for place in range(batch * size, (batch + 1) * size):
        turn, rank = divmod(place, images.n_classes)
        c = int(images.order_of_classes(seed, "rounds", epoch, turn)[rank])
        image_order = images.order_of_images(c, seed, "images of a round", c, epoch)
        positions.append(int(image_order[turn % len(image_order)]))
    return np.array(positions)
