"""The manifest: the images that a run uses, and nothing of the layout they came in.

Of the source these are the few-shot training images of all seeds and the test images, of a target the test images.
Size and content digest stand beside each path, so everything that depends on the manifest depends on the images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from wsoup.datasets import digests, fewshot
from wsoup.datasets.listing import Listing, Split
from wsoup.errors import DataError
from wsoup.params import DatasetParams


@dataclass(frozen=True)
class Manifest:
    """One dataset as the pipeline sees it.

    Attributes:
        table: path, label, class_name, split ("train" or "test"), size, digest, seeds (the few-shot draws that a
            training image is in; empty for test), sorted by split, label and path.
        attributes: dataset, root, role, template, class_names, layout, and where the splits come from.
    """

    table: pa.Table
    attributes: dict[str, Any]


def build(listing: Listing, *, name: str, params: DatasetParams, shots: int, seeds: list[int]) -> Manifest:
    """Compile a listing.

    Args:
        listing: all images of the dataset.
        name: its name in params.yaml.
        params: its section.
        shots: training images per class and seed; drawn where the dataset's role is source.
        seeds: one few-shot draw each.

    Raises:
        DataError: no such split, too few training images, no test images.
        MissingError: a listed image does not exist.
    """
    test = listing.split(params.test_split)
    if not test.paths:
        raise DataError(f"{listing.origin}: split {params.test_split!r} of dataset {name} has no images")
    table = _rows(test, split="test", seeds=None)
    if params.role == "source":
        train = listing.split("train")
        draws = {
            seed: fewshot.draw(train, class_names=listing.class_names, shots=shots, seed=seed, origin=listing.origin)
            for seed in seeds
        }
        table = pa.concat_tables([table, _few_shot_rows(train, draws=draws)])
    table = table.sort_by([("split", "ascending"), ("label", "ascending"), ("path", "ascending")]).combine_chunks()
    paths = table["path"].to_pylist()
    found = digests.of_images(listing.root, paths, origin=listing.origin)
    names = pa.array(listing.class_names, type=pa.string()).take(table["label"].combine_chunks())
    table = pa.table(
        {
            "path": table["path"],
            "label": table["label"],
            "class_name": names,
            "split": table["split"],
            "size": found.sizes,
            "digest": found.hexes,
            "seeds": table["seeds"],
        }
    )
    attributes = {
        "dataset": name,
        "root": listing.root,
        "role": params.role,
        "template": params.template,
        "class_names": listing.class_names,
        "layout": params.layout,
        "classes": params.classes,
        "test_split": params.test_split,
        "split_source": listing.origin,
        "notes": listing.notes,
    }
    return Manifest(table, attributes)


def _few_shot_rows(train: Split, *, draws: dict[int, np.ndarray]) -> pa.Table:
    """The union of all draws; each row says which seeds it is in."""
    seeds_of: dict[int, list[int]] = {}
    for seed, drawn in draws.items():
        for i in drawn.tolist():
            seeds_of.setdefault(i, []).append(seed)
    kept = sorted(seeds_of)
    subset = Split([train.paths[i] for i in kept], train.labels[kept])
    return _rows(subset, split="train", seeds=[sorted(seeds_of[i]) for i in kept])


def _rows(rows: Split, *, split: str, seeds: list[list[int]] | None) -> pa.Table:
    n = len(rows.paths)
    empty = pa.ListArray.from_arrays(pa.array(np.zeros(n + 1, dtype=np.int32)), pa.array([], type=pa.int64()))
    return pa.table(
        {
            "path": pa.array(rows.paths, type=pa.string()),
            "label": rows.labels,
            "split": pa.repeat(split, n),
            "seeds": empty if seeds is None else pa.array(seeds, type=pa.list_(pa.int64())),
        }
    )
