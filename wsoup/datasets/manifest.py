"""The manifest: the images that a run uses, whatever layout they came in.

Of the source these are the few-shot training images of all seeds and the test images, of a target the test images.
Each path comes with the size and the digest of its file, so what depends on the manifest depends on the images.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wsoup.base.errors import DataError
from wsoup.datasets import digests, fewshot, paper
from wsoup.datasets.listing import Listing, Split
from wsoup.params.inputs import DatasetParams


@dataclass(frozen=True)
class Manifest:
    """One dataset as the pipeline sees it.

    Attributes:
        table: path, label, class_name, split ("train" or "test"), size, digest, seeds (the few-shot draws that a
            training image is in; empty for test), sorted by split, label and path.
        attributes: dataset, root, role, template, class_names, layout, and the source of the splits.
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
    table, names = select(listing, params=params, shots=shots, seeds=seeds)
    paths = table["path"].to_pylist()
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
        "test_split": params.test_split,
        "split_source": listing.origin,
        "fewshot_source": (params.fewshot_pickles or "drawn by shots and seed") if params.role == "source" else None,
        "paper_comparable": comparable,
        "reason": reason,
    }
    return Manifest(pa.table(columns), attributes)


def select(listing: Listing, *, params: DatasetParams, shots: int, seeds: list[int]) -> tuple[pa.Table, list[str]]:
    """The images that a run uses (path, label, split, seeds), sorted and with labels from 0, and their class names."""
    test = listing.split(params.test_split)
    if not test.paths:
        raise DataError(f"{listing.origin}: split {params.test_split!r} has no images; add some or correct test_split")
    table = _rows(test, split="test", seeds=[[]] * len(test.paths))
    if params.role == "source":
        train = listing.split("train")
        seeds_of = _seeds_by_image(train, listing=listing, params=params, shots=shots, seeds=seeds)
        images = sorted(seeds_of)
        few_shot = Split([train.paths[i] for i in images], train.labels[images])
        table = pa.concat_tables([table, _rows(few_shot, split="train", seeds=[seeds_of[i] for i in images])])
    table = table.sort_by([("split", "ascending"), ("label", "ascending"), ("path", "ascending")])
    return table.combine_chunks(), listing.class_names


def _seeds_by_image(
    train: Split, *, listing: Listing, params: DatasetParams, shots: int, seeds: list[int]
) -> dict[int, list[int]]:
    """Sorted seeds that draw an image, by its position in `train`; drawn here, or listed by the user's pickles."""
    if params.fewshot_pickles is not None:
        draw = partial(fewshot.pickled, folder=params.fewshot_pickles)
    else:
        draw = partial(fewshot.draw, origin=listing.origin)
    seeds_of: dict[int, list[int]] = {}
    for seed in sorted(seeds):
        for i in draw(train, class_names=listing.class_names, shots=shots, seed=seed).tolist():
            seeds_of.setdefault(i, []).append(seed)
    return seeds_of


def _rows(images: Split, *, split: str, seeds: list[list[int]]) -> pa.Table:
    return pa.table(
        {
            "path": pa.array(images.paths, type=pa.string()),
            "label": images.labels,
            "split": pa.repeat(split, len(images.paths)),
            "seeds": pa.array(seeds, type=pa.list_(pa.int64())),
        }
    )
