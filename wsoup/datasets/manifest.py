"""The manifest: the images that a run uses, and nothing of the layout they came in.

Of the source these are the few-shot training images of all seeds and the test images, of a target the test images.
Size and content digest stand beside each path, so everything that depends on the manifest depends on the images.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wsoup.core.errors import DataError
from wsoup.core.params.datasets import DatasetParams
from wsoup.datasets import digests, fewshot, paper
from wsoup.datasets.listing import Listing, Split, class_range, some


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
        listing: all images of the dataset, all classes; drawn from before it is restricted to `params.classes`.
        name: its name in params.yaml.
        params: its section.
        shots: training images per class and seed; drawn where the dataset's role is source.
        seeds: one few-shot draw each.

    Raises:
        DataError: no such split, too few training images, no test images, one class to halve.
        MissingError: a listed image does not exist.
    """
    table, names = select(listing, params=params, shots=shots, seeds=seeds)
    paths = table["path"].to_pylist()
    if listing.fetch is not None:
        listing.fetch(paths)
    files = digests.of_images(listing.root, paths, origin=listing.origin)
    columns = {
        "path": table["path"],
        "label": table["label"],
        "class_name": pa.array(names, type=pa.string()).take(table["label"].combine_chunks()),
        "split": table["split"],
        "size": files.sizes,
        "digest": files.hexes,
        "seeds": table["seeds"],
    }
    comparable, reason = paper.comparable(
        params.layout,
        dataset=name,
        template=params.template,
        classes=params.classes,
        test_split=params.test_split,
        n_test=pc.sum(pc.equal(table["split"], "test")).as_py(),
        n_classes=len(names),
    )
    attributes = {
        "dataset": name,
        "root": listing.root,
        "role": params.role,
        "template": params.template,
        "class_names": names,
        "layout": params.layout,
        "classes": params.classes,
        "test_split": params.test_split,
        "split_source": listing.origin,
        "fewshot_source": (params.fewshot_pickles or "drawn by shots and seed") if params.role == "source" else None,
        "paper_comparable": comparable,
        "reason": reason,
    }
    return Manifest(pa.table(columns), attributes)


def select(listing: Listing, *, params: DatasetParams, shots: int, seeds: list[int]) -> tuple[pa.Table, list[str]]:
    """The images that a run uses (path, label, split, seeds), sorted and renumbered, and their class names."""
    test = listing.split(params.test_split)
    if not test.paths:
        raise DataError(f"{listing.origin}: split {params.test_split!r} has no images; add some or correct test_split")
    table = _rows(test, split="test", seeds=None)
    if params.role == "source":
        train = listing.split("train")
        draws = _draws(train, listing=listing, params=params, shots=shots, seeds=seeds)
        table = pa.concat_tables([table, _few_shot_rows(train, draws=draws)])
    kept = class_range(len(listing.class_names), classes=params.classes)
    if params.classes != "all" and len(listing.class_names) < 2:
        raise DataError(
            f"{listing.origin}: classes: {params.classes} needs at least two classes to halve, found "
            f"{some(listing.class_names)}; add classes, or use classes: all"
        )
    if params.classes != "all":
        labels = table["label"]
        table = table.filter(pc.and_(pc.greater_equal(labels, kept.start), pc.less(labels, kept.stop)))
        place = table.column_names.index("label")
        table = table.set_column(place, "label", pc.subtract(table["label"], kept.start))
    table = table.sort_by([("split", "ascending"), ("label", "ascending"), ("path", "ascending")])
    return table.combine_chunks(), listing.class_names[kept.start : kept.stop]


def _draws(
    train: Split, *, listing: Listing, params: DatasetParams, shots: int, seeds: list[int]
) -> dict[int, np.ndarray]:
    """Positions in `train` of each seed's images: drawn here, or as the user's pickles list them."""
    names = listing.class_names
    if params.fewshot_pickles is not None:
        draw = partial(fewshot.pickled, folder=params.fewshot_pickles)
    else:
        draw = partial(fewshot.draw, origin=listing.origin)
    return {seed: draw(train, class_names=names, shots=shots, seed=seed) for seed in seeds}


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
