"""ImageFolder: root/{train,val,test}/class/.../image, or root/class/.../image for a test set alone.

Labels follow the sorted folder names. An optional ``classnames.txt`` in the root renames them: one line a class, the
folder's name, white space, and the class name (CoOp's form: ``n01440764 tench``).

A folder of classes without a split may be divided by what the images hold. An image's own digest says on which side it
is: it stays there whatever is added, removed or renamed, two copies of one photograph never lie on both sides, and
everybody with the same images has the same split. The share of a class is the fraction on average, not to the image.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.core.disk.files import read_text, reason_of, regular_file, shown
from wsoup.core.errors import DataError, MissingError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.listing import IMAGE_SUFFIXES, Listing, Split, some

SPLIT_FOLDERS = ("train", "val", "test")
DEEPEST = 64
"""Folders within each other under a class folder."""


def read(root: str, *, wanted: Collection[str] = SPLIT_FOLDERS, class_names: str | None = None) -> Listing:
    """List an ImageFolder.

    Args:
        root: the folder.
        wanted: the splits to list; the classes are those of these splits.
        class_names: a file like ``classnames.txt`` that lies elsewhere, or None.

    Raises:
        MissingError: no such folder.
        DataError: no class folders, an empty one, a name that is not UTF-8, a loop of symbolic links, something
            called like an image that is not a file.
    """
    base = require_folder(root)
    # A folder of images alone is a class, whatever it is called: there are photographs of trains. But where there are
    # no other folders, or another one holds classes, it is a split without them.
    top = subfolders(base)
    splits_there = [name for name in SPLIT_FOLDERS if name in top and subfolders(base / name)]
    for name in SPLIT_FOLDERS:
        if name in top and name in wanted and name not in splits_there and (splits_there or {*top} <= {*SPLIT_FOLDERS}):
            raise DataError(f"{base / name} has no class folders; expected {base / name}/<class>/<image>")
    there = {name: base / name for name in splits_there} or {"test": base}
    folders = {name: folder for name, folder in there.items() if name in wanted} or there
    classes = sorted({name for folder in folders.values() for name in subfolders(folder)})
    if not classes:
        raise DataError(
            f"{root} has no class folders; expected {root}/train/<class>/<image> and {root}/test/<class>/<image>, "
            f"or {root}/<class>/<image>"
        )
    splits = {name: list_split(base, folder=folder, classes=classes) for name, folder in folders.items()}
    names_file = Path(class_names) if class_names else base / "classnames.txt"
    renamed = read_class_names(names_file) if class_names or os.path.lexists(names_file) else {}
    names = names_of(classes, renamed=renamed, origin=str(names_file)) if renamed else classes
    return Listing(root, [clean_class_name(name) for name in names], splits, origin=root)


def require_folder(root: str | Path) -> Path:
    """The folder `root`, or MissingError."""
    base = Path(root)
    if not os.path.isdir(base):
        raise MissingError(f"{root} does not exist or is not a folder; correct the dataset's root in params.yaml")
    return base


def subfolders(folder: Path) -> list[str]:
    """Names of the folders in a folder, sorted, hidden ones left out."""
    names = [entry.name for entry in _entries(folder) if os.path.isdir(entry.path)]
    for name in names:
        check_utf8(name, folder=folder)
    return sorted(names)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What a folder holds, hidden things left out."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"{shown(str(folder))} cannot be listed ({reason_of(error)}); repair or remove it") from None


def prefix_of(base: Path, folder: Path) -> str:
    """What comes before a file's name in its path relative to `base`: ``""`` or ``"a/b/"``."""
    text = folder.relative_to(base).as_posix()
    return "" if text == "." else f"{text}/"


def list_split(base: Path, *, folder: Path, classes: Sequence[str]) -> Split:
    """All images under folder/<class>, with the position of the class in `classes` as label.

    Raises:
        DataError: a class folder without images.
    """
    paths: list[str] = []
    counts = np.zeros(len(classes), dtype=np.int64)
    prefix = prefix_of(base, folder)
    for label, name in enumerate(classes):
        start = len(paths)
        if (folder / name).is_dir():
            paths.extend(f"{prefix}{name}/{path}" for path in sorted(_images(folder / name, above=())))
            if len(paths) == start:
                raise DataError(f"{folder / name} holds no images; add some or remove the folder")
        counts[label] = len(paths) - start
    return Split(paths, np.repeat(np.arange(len(classes), dtype=np.int64), counts))


def _images(folder: Path, *, above: tuple[str, ...]) -> Iterator[str]:
    """Paths of the images below a folder, relative to it; `above` are the real paths of the folders around it."""
    if len(above) > DEEPEST:
        raise DataError(f"{shown(str(folder))} lies more than {DEEPEST} folders deep; move the images up")
    for entry in _entries(folder):
        check_utf8(entry.name, folder=folder)
        if os.path.splitext(entry.name)[1].lower() in IMAGE_SUFFIXES:
            if not entry.is_file(follow_symlinks=False):
                regular_file(entry.path)
            yield entry.name
        elif os.path.isdir(entry.path):
            here = (*above, os.path.realpath(folder))
            if os.path.realpath(entry.path) in here:
                raise DataError(f"{entry.path} is a symbolic link to a folder that holds it (a loop); remove it")
            for path in _images(Path(entry.path), above=here):
                yield f"{entry.name}/{path}"


def check_utf8(name: str, *, folder: str | Path) -> None:
    """Raise DataError where a file name is not UTF-8 (Python shows its odd bytes as lone surrogates)."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        shown = os.fsencode(name)
        raise DataError(f"{folder} holds a name that is not UTF-8: {shown!r}; rename the file or folder") from None


def read_class_names(path: Path) -> dict[str, str]:
    """``folder name`` lines as a dict, in file order.

    Raises:
        MissingError: no such file.
        DataError: a line without a name, or a folder named twice.
    """
    if not path.is_file():
        raise MissingError(f"{path} does not exist; expected one line a class: folder, a space, class name")
    names: dict[str, str] = {}
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        folder, _, name = line.strip().partition("\t" if "\t" in line.strip() else " ")
        if not name.strip():
            raise DataError(f"{path}, line {number}: {line.strip()!r} should be: folder, a space, class name")
        if folder in names:
            raise DataError(f"{path}, line {number}: folder {folder!r} is named twice; keep one line")
        names[folder] = name.strip()
    return names


def names_of(folders: Sequence[str], *, renamed: dict[str, str], origin: str) -> list[str]:
    """Class names of folders, in their order; every folder must have one."""
    unnamed = [folder for folder in folders if folder not in renamed]
    if unnamed:
        raise DataError(f"{origin} has no line for folder {some(unnamed)}; add one: folder, a space, class name")
    return [renamed[folder] for folder in folders]


def read_json(path: Path, *, expected: str) -> Any:
    """A JSON file, or DataError that says what it should hold."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a plain ValueError
        raise DataError(f"{path} is not JSON ({reason_of(error)}); expected {expected}") from None


def is_test(digest: str, *, fraction: float) -> bool:
    """Whether an image of this SHA-256, in hex, is a test image.

    >>> is_test("3f" + 62 * "0", fraction=0.25), is_test("40" + 62 * "0", fraction=0.25)
    (True, False)
    """
    return int(digest[:13], 16) < fraction * 16**13  # 52 bits, which a float holds


def divided(listing: Listing, *, fraction: float, test_split: str) -> Listing:
    """The listing of a folder without a split, with the splits train and `test_split`.

    Args:
        listing: as `read` lists it: all images in ``test``.
        fraction: share of test images, between 0 and 1.
        test_split: what the test images are called.

    Raises:
        DataError: the folder has splits already.
        MissingError: an image is gone.
    """
    if set(listing.splits) != {"test"} or any(path.startswith("test/") for path in listing.splits["test"].paths):
        raise DataError(
            f"{listing.origin} is divided into {', '.join(listing.splits)} already; test_fraction is for a folder of "
            "classes without train/ and test/: remove it, or move the classes up"
        )
    from wsoup.datasets import digests  # which needs pyarrow

    every = listing.splits["test"]
    of_images = digests.of_images(listing.root, every.paths, origin=listing.origin)
    chosen = np.array([is_test(digest, fraction=fraction) for digest in of_images.hexes], dtype=bool)

    def part(mask: np.ndarray) -> Split:
        return Split([every.paths[i] for i in np.flatnonzero(mask).tolist()], every.labels[mask])

    origin = f"{listing.origin} ({100 * fraction:g} % for testing, by digest)"
    return dataclasses.replace(listing, splits={"train": part(~chosen), test_split: part(chosen)}, origin=origin)
