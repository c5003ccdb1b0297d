"""Test accuracy of a head: a line of results, including which images are right. Needs no encoder."""

import math

import numpy as np
import torch

from wsoup.disk.features import ImageFeatures
from wsoup.evaluate.rows import pack_right, row_name
from wsoup.heads.head import Head

ROLES = ("source", "dg")
"""Roles of datasets that may share the classes of a head."""
IMAGES_AT_ONCE = 4096


def head_line(head: Head, *, name: str, soup: str, seed: int, test: ImageFeatures) -> dict[str, object] | None:
    """One line of results as in `wsoup.evaluate.counts.SCHEMA`, with the additional column `right`.

    If the dataset has only some of the head's classes, predictions are restricted to those.

    Args:
        head: the head made with `seed`.
        name: its name in params.yaml, the line's variant.
        soup: the name of its soup, whose row it belongs to.
        seed: the seed.
        test: images of one dataset, with labels.

    Returns:
        The line, or None if the dataset has other classes.
    """
    about, classes = test.attributes, list(head.class_names)
    if about["role"] not in ROLES or not {*test.class_names} <= {*classes}:
        return None
    columns = [classes.index(class_name) for class_name in test.class_names]
    blocks = torch.from_numpy(test.features).split(IMAGES_AT_ONCE)
    predicted = torch.cat([head.logits(block)[:, columns].argmax(dim=1) for block in blocks])
    right: np.ndarray = predicted.numpy() == test.labels
    m = len(head.soup.members)
    return {
        "method": row_name(soup),
        "variant": name,
        "mode": "centroid",
        "m": m,
        "offsets": 1,
        "texts": float(m),
        "stored": 0,  # the head's parameters replace the texts
        "seed": seed,
        "dataset": about["dataset"],
        "role": about["role"],
        "n_correct": int(right.sum()),
        "n_images": len(right),
        "alignment": math.nan,
        "uniformity": math.nan,
        "right": pack_right(right),
    }
