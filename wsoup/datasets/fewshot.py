"""Few-shot training images: drawn by (shots, seed), the same on every machine.

Each class of each seed has a generator of its own, made from (seed, label), and takes the first `shots` of one
permutation of its sorted paths: the 4-shot split lies within the 16-shot split.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsoup.core.errors import DataError, MismatchError
from wsoup.datasets.listing import Split

if TYPE_CHECKING:
    import pyarrow as pa


def draw(split: Split, *, class_names: list[str], shots: int, seed: int, origin: str) -> np.ndarray:
    """Positions in `split` of the few-shot images of one seed: (C * shots,) int64, by label, then path.

    Raises:
        DataError: a class has fewer images than shots; names the class and its count.
    """
    drawn = []
    for label, members in enumerate(by_label(split, n_classes=len(class_names))):
        if len(members) < shots:
            raise DataError(
                f"{origin}: class {class_names[label]!r} has {len(members)} training images, fewer than "
                f"fewshot.shots = {shots}; add images or lower fewshot.shots"
            )
        members = members[np.argsort([split.paths[i] for i in members], kind="stable")]
        generator = np.random.default_rng([seed, label])
        drawn.append(members[np.sort(generator.permutation(len(members))[:shots])])
    return np.concatenate(drawn)


def by_label(split: Split, *, n_classes: int) -> list[np.ndarray]:
    """Positions of the images of each class."""
    order = np.argsort(split.labels, kind="stable")
    return np.split(order, np.searchsorted(split.labels[order], np.arange(1, n_classes)))


def split_of_seed(manifest: pa.Table, *, seed: int) -> pa.Table:
    """The few-shot training images of one seed: path, label, row (in the manifest), in manifest order.

    Raises:
        MismatchError: the manifest knows no such seed.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    seeds = manifest["seeds"].combine_chunks()
    rows = pc.list_parent_indices(seeds).to_numpy()[pc.list_flatten(seeds).to_numpy() == seed]
    if not len(rows):
        raise MismatchError(f"the manifest has no few-shot images of seed {seed}; run `dvc repro prepare`")
    return pa.table({"path": manifest["path"].take(rows), "label": manifest["label"].take(rows), "row": rows})
