"""Images with the same bytes: in train and in test, or under two labels.

A test image that a soup or a head has learned from proves nothing, and one in two classes is right in one of them at
most. Both are left out of a manifest, as `wsoup try` leaves them out, but not of the paper's datasets, whose test
images are the paper's.
"""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wsoup.base.errors import DataError
from wsoup.base.number_of import number_of
from wsoup.datasets.listing import some
from wsoup.datasets.manifest import Manifest

MISTAKES = {
    "split": "with the same bytes in train and in test, for example {}; a test image that was trained on "
    "proves nothing: remove it from one of them",
    "label": "with the same bytes under several labels, for example {}; keep each under one label",
}
"""What is wrong with images of the same bytes that differ in a column of the manifest."""
OF_PAPER = ("coop", "laion")
"""Layouts whose test images are those of the paper, copies included."""


def groups_of_copies(digests: Sequence[str]) -> list[list[int]]:
    """Positions of images with the same digest, ascending, for each digest of several images."""
    # Counting first: among 10^6 images hardly any are equal, and only these need their rows.
    count = Counter(digests)
    copies = defaultdict(list)
    for i, digest in enumerate(digests):
        if count[digest] > 1:
            copies[digest].append(i)
    return list(copies.values())


def mistakes(table: pa.Table, *, digests: Sequence[str]) -> Iterator[str]:
    """A line for each of `MISTAKES` in a manifest's table (path, label, split)."""
    copies = groups_of_copies(digests)
    for column, sentence in MISTAKES.items():
        groups = []
        for rows in copies:
            if len(pc.unique(table[column].take(rows))) > 1:
                groups.append(rows)
        if groups:
            example = some(table["path"].take(groups[0]).to_pylist())
            yield f"{number_of(len(groups), 'image')} {sentence.format(example)}"


def without_copies(built: Manifest, *, for_heads: bool) -> tuple[Manifest, list[str]]:
    """A manifest without test images that are copies, and lines about those that were left out.

    Args:
        built: the manifest.
        for_heads: whether heads are made of its training images, which no photo with two labels may be among.

    Raises:
        DataError: a training image with two labels; no test image is left.
    """
    table = built.table
    if str(built.attributes["layout"]).startswith(OF_PAPER):
        return built, []
    labels = table["label"].to_pylist()
    paths = table["path"].to_pylist()
    is_test = pc.equal(table["split"], "test").to_pylist()
    left_out: dict[str, list[int]] = {"in two classes": [], "also in train": []}
    n_repeated = 0
    for rows in groups_of_copies(table["digest"].to_pylist()):
        in_test = [i for i in rows if is_test[i]]
        in_train = [i for i in rows if not is_test[i]]
        if len({labels[i] for i in rows}) > 1:
            if for_heads and len({labels[i] for i in in_train}) > 1:
                raise _two_labels(table, rows=in_train)
            left_out["in two classes"] += in_test
        elif in_train:
            left_out["also in train"] += in_test
        else:
            n_repeated += len(in_test) - 1
    lines = []
    if n_repeated:
        lines.append(f"{n_repeated:,} test images are copies of other test images, and count as often")
    kept = np.ones(table.num_rows, dtype=bool)
    for why, rows in left_out.items():
        kept[rows] = False
        if rows:
            shown = some([paths[i] for i in rows])
            lines.append(f"{len(rows):,} test images are left out, since the same photo is {why}: {shown}")
    n_left_out = int((~kept).sum())
    if not n_left_out:
        return built, lines
    if not any(test and keep for test, keep in zip(is_test, kept.tolist(), strict=True)):
        raise DataError(f"no test image is left: {lines[-1]}; test on photos that are not learned from")
    attributes = {**built.attributes, "copies_left_out": n_left_out}
    return dataclasses.replace(built, table=table.filter(pa.array(kept)), attributes=attributes), lines


def _two_labels(table: pa.Table, *, rows: Sequence[int]) -> DataError:
    """The error for a photo to learn from that lies in two classes."""
    named = [f"{table['path'][i].as_py()} ({table['class_name'][i].as_py()})" for i in rows]
    return DataError(f"{' and '.join(named[:2])} are the same photo in two classes; a head can learn neither: keep one")
