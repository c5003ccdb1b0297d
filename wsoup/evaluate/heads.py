"""What a head gets right of test images: lines of results, and which images for the verdict. No encoder is needed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from wsoup.core.disk.store import ImageFeatures
from wsoup.evaluate.bits import pack_right
from wsoup.evaluate.rows import CLASS_NAME, soup_rows
from wsoup.heads.head import Head

ROLES = ("source", "dg")
"""Of datasets that may have the classes of a head."""
IMAGES_AT_ONCE = 4096


def head_line(head: Head, *, name: str, soup: str, seed: int, test: ImageFeatures) -> dict[str, Any] | None:
    """One line of results, as `wsoup.evaluate.counts` has them, and the column `right`.

    A dataset with some of the head's classes is answered among these.

    Args:
        head: made with that seed.
        name: its name in params.yaml, the line's variant.
        soup: the name of its soup, whose row it stands in.
        seed: which.
        test: images of one dataset, with labels.

    Returns:
        None for a dataset of other classes.
    """
    about, known = test.attributes, list(head.class_names)
    if about["role"] not in ROLES or not {*test.class_names} <= {*known}:
        return None
    columns = [known.index(each) for each in test.class_names]
    blocks = torch.from_numpy(test.features).split(IMAGES_AT_ONCE)
    answers = torch.cat([head.logits(block)[:, columns].argmax(dim=1) for block in blocks])
    right: np.ndarray = answers.numpy() == test.labels
    method = CLASS_NAME if soup == CLASS_NAME.name else soup_rows(soup)[0].method
    m = len(head.soup.members)
    return {
        "method": method.name,
        "variant": name,
        "mode": "centroid",
        "m": m,
        "offsets": 1,
        "texts": float(m),
        "stored": 0,  # texts are in the head's own numbers
        "seed": seed,
        "dataset": about["dataset"],
        "role": about["role"],
        "n_correct": int(right.sum()),
        "n_images": len(right),
        "alignment": math.nan,
        "uniformity": math.nan,
        "right": pack_right(right),
    }
