"""Piles of test images to adapt to: in which regimes, drawn by their labels and handed on without them.

What adapts sees `Piles.features`, in an order that says nothing, and for each pile the places of its images; what is
right stays behind. The regimes are those in which adaptation without labels is known to gain, and to lose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wsoup.core.draws import named_generator

BATCH = 64
"""Images of a stream that come together."""
REGIMES = {
    "all": "all classes as they come",
    "imbalanced": "10 to 1: classes thinned out evenly, to a tenth",
    "fifth": "a fifth of the classes",
    "stream": f"batches of {BATCH} in random order",
    "sorted": f"batches of {BATCH}, class after class",
}
"""Name in results -> what tables say of it."""
STREAMS = ("stream", "sorted")
IMBALANCE = 10.0
SHARE = 5
"""Of how many classes one is there."""


def order(n: int, *, dataset: str) -> np.ndarray:
    """An order of N images that says nothing of their labels: (N,) int64."""
    return named_generator("piles", dataset).permutation(n)


def drawn(labels: np.ndarray, *, n_classes: int, dataset: str, seed: int) -> Mapping[str, np.ndarray]:
    """The places of each regime's images, in the order in which they come: regime -> (n,) int64.

    Args:
        labels: (N,) in `order`.
        n_classes: C.
        dataset, seed: name the draw.
    """
    draw = named_generator("piles", dataset, seed)
    shuffled, classes = draw.permutation(len(labels)), draw.permutation(n_classes)
    rank = np.argsort(classes)[labels[shuffled]]  # of each image's class, in the drawn order of classes
    nth = np.zeros(len(labels), dtype=np.int64)  # image of its class
    for one in range(n_classes):
        nth[rank == one] = np.arange(int((rank == one).sum()))
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
    """One line for each regime: what adapts sees of it, and as `labels` and `role` what it does not."""
    named = {"dataset": about["dataset"], "seed": seed}
    made = drawn(labels, n_classes=len(about["class_names"]), **named)
    return [
        {
            **named,
            "regime": regime,
            "batch": BATCH if regime in STREAMS else 0,
            "images": images.astype(np.int32),
            "role": about["role"],
            "n_all": len(labels),
            "labels": labels[images].astype(np.int32),
        }
        for regime, images in made.items()
        if len(images)
    ]
