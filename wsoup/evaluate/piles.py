"""Piles of test images for adaptation without labels, in several regimes.

Labels decide which images form a pile, but adaptation gets only image features in random order, and the positions of
each pile's images. The regimes are those in which adaptation is known to help, and to hurt.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from wsoup.core.draws import named_generator

BATCH = 64
"""Images of a stream that arrive together."""
REGIMES = {
    "all": "all classes as they come",
    "imbalanced": "10 to 1: classes thinned out evenly, to a tenth",
    "fifth": "a fifth of the classes",
    "stream": f"batches of {BATCH} in random order",
    "sorted": f"batches of {BATCH}, class after class",
}
"""Name in results -> description in tables."""
STREAMS = ("stream", "sorted")
IMBALANCE = 10.0
SHARE = 5
"""Regime `fifth` has one in five classes."""


def order(n: int, *, dataset: str) -> np.ndarray:
    """A random order of N images, independent of labels: (N,) int64."""
    return named_generator("piles", dataset).permutation(n)


def drawn(labels: np.ndarray, *, n_classes: int, dataset: str, seed: int) -> Mapping[str, np.ndarray]:
    """Positions of each regime's images, in order of arrival: regime -> (n,) int64.

    Args:
        labels: (N,) labels after reordering by `order`.
        n_classes: C.
        dataset, seed: name the draw.
    """
    draw = named_generator("piles", dataset, seed)
    shuffled, classes = draw.permutation(len(labels)), draw.permutation(n_classes)
    rank = np.argsort(classes)[labels[shuffled]]  # rank of each image's class in the drawn order of classes
    nth = np.zeros(len(labels), dtype=np.int64)  # index of each image within its class
    for i in range(n_classes):
        nth[rank == i] = np.arange(int((rank == i).sum()))
    sizes = np.bincount(rank, minlength=n_classes)
    kept = np.ceil(sizes * IMBALANCE ** (-np.arange(n_classes) / max(1, n_classes - 1)))
    return {
        "all": np.arange(len(labels)),
        "imbalanced": shuffled[nth < kept[rank]],
        "fifth": shuffled[rank < max(2, -(-n_classes // SHARE))],
        "stream": shuffled,
        "sorted": shuffled[np.argsort(rank, kind="stable")],
    }


def lines(labels: np.ndarray, *, about: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """One line for each regime: what adaptation sees, and `labels`, `role` and `n_all`, which it does not."""
    draw = {"dataset": about["dataset"], "seed": seed}
    by_regime = drawn(labels, n_classes=len(about["class_names"]), **draw)
    return [
        {
            **draw,
            "regime": regime,
            "batch": BATCH if regime in STREAMS else 0,
            "images": images.astype(np.int32),
            "role": about["role"],
            "n_all": len(labels),
            "labels": labels[images].astype(np.int32),
        }
        for regime, images in by_regime.items()
        if len(images)
    ]
