"""Half of a dataset's classes, for generalisation from base to new classes (Zhou et al. 2022, CoCoOp, 2203.05557).

The protocol is CoOp's (KaiyangZhou/CoOp, datasets/oxford_pets.py, `subsample_classes`, as in the authors' repository):
in label order, the first half is base and the other is new; of an odd number, base has one more. What is learned on
the base classes is tested on both halves, each by itself.
"""

from dataclasses import replace

import numpy as np

from wsoup.base.errors import DataError
from wsoup.datasets.listing import Listing, Split
from wsoup.params.inputs import Half


def half(listing: Listing, *, which: Half) -> Listing:
    """The images of the base or of the new classes, with labels from 0 in the same order.

    Raises:
        DataError: the dataset has one class.
    """
    names = listing.class_names
    if len(names) < 2:
        raise DataError(f"{listing.origin}: classes: {which} needs two classes or more, and there is {len(names)}")
    middle = (len(names) + 1) // 2
    labels = range(middle) if which == "base" else range(middle, len(names))
    splits = {name: _only(split, labels=labels) for name, split in listing.splits.items()}
    return replace(listing, class_names=names[labels.start : labels.stop], splits=splits, labels_of_all=labels)


def _only(split: Split, *, labels: range) -> Split:
    """The images of some labels, which count from 0 then."""
    is_kept = (split.labels >= labels.start) & (split.labels < labels.stop)
    kept = np.flatnonzero(is_kept)
    return Split([split.paths[i] for i in kept.tolist()], split.labels[kept] - labels.start)
