"""The manifest: the images that a run uses, whatever layout they came in.

Of the source these are the few-shot training images of all seeds and the test images, of a target the test images.
Each path comes with the size and the digest of its file, so what depends on the manifest depends on the images.
"""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from wsoup.base import remote
from wsoup.base.errors import DataError, ParamsError
from wsoup.datasets import digests, division, fewshot, paper
from wsoup.datasets.halves import half
from wsoup.datasets.layouts import DIVIDED, listed_by_layout
from wsoup.datasets.listing import Listing, Split, validated
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
    attributes: dict[str, object]


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
    is_test = pc.equal(table["split"], "test")
    attributes = _attributes(listing, name=name, params=params, class_names=names, n_test=pc.sum(is_test).as_py())
    return Manifest(_with_digests(table, listing=listing, class_names=names), attributes)


def _with_digests(table: pa.Table, *, listing: Listing, class_names: list[str]) -> pa.Table:
    """The images of `select` with their class names, and the sizes and digests of their files."""
    paths = table["path"].to_pylist()
    sizes, hexes = digests.of_images(listing.root, paths, origin=listing.origin)
    name_by_label = pa.array(class_names, type=pa.string())
    columns = {
        "path": table["path"],
        "label": table["label"],
        "class_name": name_by_label.take(table["label"].combine_chunks()),
        "split": table["split"],
        "size": pa.array(sizes, type=pa.int64()),
        "digest": hexes,
        "seeds": table["seeds"],
    }
    return pa.table(columns)


def _attributes(
    listing: Listing, *, name: str, params: DatasetParams, class_names: list[str], n_test: int
) -> dict[str, object]:
    """What a manifest says about its dataset, see `Manifest`."""
    comparable, reason = paper.comparable(
        params.layout,
        dataset=name,
        template=params.template,
        test_split=params.test_split,
        n_test=n_test,
        n_classes=len(class_names),
    )
    fewshot_source = None
    if params.role == "source":
        fewshot_source = params.fewshot_pickles or "drawn by shots and seed"
    return {
        "dataset": name,
        "root": listing.root,
        "role": params.role,
        "template": params.template,
        "class_names": class_names,
        "layout": params.layout,
        "test_split": params.test_split,
        "split_source": listing.origin,
        "fewshot_source": fewshot_source,
        "paper_comparable": comparable,
        "reason": reason,
    }


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
        seeds_of_images = [seeds_of[i] for i in images]
        table = pa.concat_tables([table, _rows(few_shot, split="train", seeds=seeds_of_images)])
    table = table.sort_by([("split", "ascending"), ("label", "ascending"), ("path", "ascending")])
    return table.combine_chunks(), listing.class_names


def _seeds_by_image(
    train: Split, *, listing: Listing, params: DatasetParams, shots: int, seeds: list[int]
) -> dict[int, list[int]]:
    """Sorted seeds that draw an image, by its position in `train`; drawn here, or listed by the user's pickles."""
    if params.fewshot_pickles is not None:
        draw = partial(fewshot.pickled, folder=params.fewshot_pickles, labels_of_all=listing.labels_of_all)
    else:
        draw = partial(fewshot.draw, origin=listing.origin)
    seeds_of: dict[int, list[int]] = {}
    for seed in sorted(seeds):
        drawn = draw(train, class_names=listing.class_names, shots=shots, seed=seed)
        for i in drawn.tolist():
            seeds_of.setdefault(i, []).append(seed)
    return seeds_of


def _rows(images: Split, *, split: str, seeds: list[list[int]]) -> pa.Table:
    # Types are said, because empty columns have none of their own.
    columns = {
        "path": pa.array(images.paths, type=pa.string()),
        "label": images.labels,
        "split": pa.repeat(split, len(images.paths)),
        "seeds": pa.array(seeds, type=pa.list_(pa.int64())),
    }
    return pa.table(columns)


def read_listing(name: str, *, params: DatasetParams) -> Listing:
    """List the splits of a dataset that its role needs.

    Args:
        name: the dataset's name in params.yaml.
        params: its section.

    Raises:
        ParamsError: unknown layout, `verify` without a folder to watch, `test_fraction` for data that has splits.
        MissingError, DataError: as the layout's module says; a folder of images that DVC would not watch.
    """
    if params.verify and not Path(params.watch).is_dir():
        raise ParamsError(
            f"datasets.{name}: verify: true needs `watch` to be the folder of the images, not {params.watch}: "
            f"DVC notices changed images only there; set watch: {params.root}"
        )
    if params.test_fraction is not None and params.layout.startswith(DIVIDED):
        raise ParamsError(
            f"datasets.{name}: test_fraction divides images that are not divided yet; layout {params.layout!r} has its "
            "own splits: remove test_fraction"
        )
    listed = listed_by_layout(name, params=params)
    if params.test_fraction is not None:
        images = division.undivided(validated(listed))
        _, hexes = digests.of_images(listed.root, images.paths, origin=listed.origin)
        listed = division.divided(listed, hexes, fraction=params.test_fraction, test_split=params.test_split)
    _check_watched(listed, watch=params.watch)
    listing = validated(listed)
    if params.classes is None:
        return listing
    # After the split by digests, so that base and new classes are divided as all of them would be.
    return half(listing, which=params.classes)


def _check_watched(listing: Listing, *, watch: str) -> None:
    """Refuse images that are below `watch` only through a link to a folder elsewhere, which DVC does not follow."""
    if remote.is_remote(listing.root) or not Path(watch).is_dir():
        return
    top = os.path.realpath(watch) + os.sep
    root = os.path.realpath(listing.root)
    # A folder's images are all behind the same links, so each folder is resolved once.
    folders: set[str] = set()
    for split in listing.splits.values():
        folders.update(path.rpartition("/")[0] for path in split.paths)
    for name in sorted(folders):
        place = os.path.join(root, name, "")
        target = os.path.join(os.path.realpath(place), "")
        if place.startswith(top) and not target.startswith(top) and os.path.isdir(place):
            raise DataError(
                f"{listing.root}/{name} is, or lies below, a link to a folder outside of {watch} ({target[:-1]}): DVC "
                "would not notice changes there; move the folder to the link's place"
            )
