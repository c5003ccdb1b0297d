"""webdataset tars as CLIP_benchmark lays them out: root/{train,val,test}/{0..n}.tar and root/classnames.txt.

A sample is two members of one name, an image and its label number: ``s0000017.webp`` and ``s0000017.cls``. Class names
are one a line, in label order (LAION-AI/CLIP_benchmark, clip_benchmark/webdataset_builder.py).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from wsoup.core.disk.files import read_bytes, read_text, regular_file, tar_index
from wsoup.core.errors import DataError, MissingError
from wsoup.datasets.folder import SPLIT_FOLDERS, require_folder
from wsoup.datasets.listing import IMAGE_SUFFIXES, Listing, Split, split_of
from wsoup.datasets.tables import read_name_list


def read(root: str, *, wanted: Collection[str], class_names: str | None = None) -> Listing:
    """List the images in the tars of the wanted splits; a path is ``test/0.tar/s0000017.webp``.

    Raises:
        MissingError: no such folder, no tars, a missing shard, no classnames.txt.
        DataError: a truncated tar, an image without a label.
    """
    base = require_folder(root)
    names = read_name_list(Path(class_names) if class_names else base / "classnames.txt")
    splits = {split: _split(base, split) for split in SPLIT_FOLDERS if split in wanted and (base / split).is_dir()}
    if not splits:
        raise MissingError(f"{root} has none of the folders {', '.join(wanted)} with webdataset tars")
    return Listing(root, names, splits, origin=root)


def _split(base: Path, split: str) -> Split:
    folder = base / split
    tars = sorted(folder.glob("*.tar"), key=lambda path: (len(path.name), path.name))
    stated = folder / "nshards.txt"
    n_shards = _number(read_text(stated), origin=str(stated)) if os.path.lexists(stated) else len(tars)
    if not tars or len(tars) < n_shards:
        raise MissingError(f"{folder} has {len(tars)} tar files, expected {max(1, n_shards)}; download the others")
    return split_of([row for tar in tars for row in _samples(tar, f"{split}/{tar.name}")])


def _samples(tar: Path, prefix: str) -> Iterator[tuple[str, int]]:
    """(path, label) of each image in one tar, in its order."""
    for name, label in images_in(tar):
        beside = f"{os.path.splitext(name)[0]}.cls"
        if label is None:
            raise DataError(f"{tar}: image {name!r} has no label; expected a member {beside}")
        yield f"{prefix}/{name}", _number(label, origin=f"{tar}: {beside}", what="a label number")


def images_in(tar: Path) -> Iterator[tuple[str, str | None]]:
    """Each image in one tar, in its order, and what the ``.cls`` member beside it says, where there is one."""
    members = tar_index(str(tar), regular_file(str(tar)).st_mtime_ns)
    for name in members:
        stem, suffix = os.path.splitext(name)
        if suffix.lower() in IMAGE_SUFFIXES:
            label = f"{stem}.cls"
            yield name, read_bytes(f"{tar}/{label}").decode("utf-8", "replace") if label in members else None


def _number(text: str, *, origin: str, what: str = "a number") -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 7):
        raise DataError(f"{origin} holds {text[:40]!r}, expected {what}")
    return int(text)
