"""`Listing`, which every layout is read into: all images of a dataset by split, with labels and class names.

ImageNet's training set has 1.3 million images, so a listing holds columns, not one object per image.
"""

import os
import posixpath
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from wsoup.base.errors import DataError, one_line
from wsoup.base.remote import names_url
from wsoup.base.validation import in_file
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.photo_files import expected
from wsoup.disk.files import read_text

DRIVE = re.compile(r"[A-Za-z]:[\\/]")
"""How an absolute path of Windows begins."""
SURROGATE = re.compile("[\ud800-\udfff]")
"""What Python shows of a name's bytes that are not UTF-8."""
LARGEST_LABEL = 10**6
"""A larger label is a mistake, and a list with one entry per label would take all memory."""
SPLIT_NAMES = {"validation": "val", "valid": "val", "dev": "val", "training": "train", "testing": "test"}
"""Usual names of splits, and ours; see `split_name`."""


@dataclass(frozen=True)
class Split:
    """The images of one split.

    Attributes:
        paths: N paths relative to the listing's root, with forward slashes.
        labels: (N,) int64.
    """

    paths: list[str]
    labels: np.ndarray


@dataclass(frozen=True)
class Listing:
    """All images of one dataset.

    Attributes:
        root: folder that paths are relative to, as the user wrote it.
        class_names: C names in label order, cleaned.
        splits: by name, usually train, val and test.
        origin: the file or folder that assigns images to splits, for messages and the manifest.
        names_may_repeat: whether two labels may share a class name, as ImageNet's "missile" does; else an error.
        notes: lines about what was left out, for the user.
        labels_of_all: of half of the classes, their labels among all classes; None: all classes are here.
    """

    root: str
    class_names: list[str]
    splits: Mapping[str, Split]
    origin: str
    names_may_repeat: bool = False
    notes: Sequence[str] = ()
    labels_of_all: range | None = None

    def split(self, name: str) -> Split:
        """A split by name; the error lists the existing ones."""
        if name not in self.splits:
            raise DataError(
                f"{self.origin} has no split {name!r}, only {', '.join(self.splits) or 'none'}; "
                "name one of these in test_split, or add the images"
            )
        return self.splits[name]


def validated(listing: Listing) -> Listing:
    """The listing itself.

    Raises:
        DataError: its first problem that makes it unusable: a name, a label, an empty class, an image listed twice.
    """
    names = listing.class_names
    origin = listing.origin
    _check_class_names(listing)
    used = np.zeros(len(names), dtype=bool)
    for name, split in listing.splits.items():
        outside = (split.labels < 0) | (split.labels >= len(names))
        if outside.any():
            i = int(outside.argmax())
            raise DataError(
                f"{origin}: {split.paths[i]} ({name}) has label {split.labels[i]}, out of range for {len(names)} "
                f"classes (0 to {len(names) - 1}); correct the label or the list of class names"
            )
        used[split.labels] = True
        # Nearly all paths are ASCII, and asking for that first is much cheaper than the search.
        odd = [path for path in split.paths if not path.isascii() and SURROGATE.search(path)]
        if odd:
            raw_names = [os.fsencode(path) for path in odd]
            raise DataError(f"{origin} ({name}): {some(raw_names)} is not a UTF-8 name; rename it")
        # Counted only after a repetition is certain: a Counter of a million paths costs seconds.
        if len(set(split.paths)) < len(split.paths):
            repeated = [path for path, count in Counter(split.paths).items() if count > 1]
            raise DataError(f"{origin} ({name}) lists {some(repeated)} more than once; list every image once")
    if not any(split.paths for split in listing.splits.values()):
        raise DataError(f"{origin} lists no images; expected {expected()} files in class folders or a list")
    if not used.all():
        empty = [names[i] for i in np.flatnonzero(~used)]
        raise DataError(
            f"{origin}: no image in class {some(empty)}; add images, or remove the class from the class list"
        )
    return listing


def _check_class_names(listing: Listing) -> None:
    names = listing.class_names
    origin = listing.origin
    for name, count in Counter(names).items():
        if count > 1 and not listing.names_may_repeat:
            labels = [i for i, other in enumerate(names) if other == name]
            raise DataError(f"{origin}: class name {name!r} is used for labels {labels}; give each label its own name")
    for label, name in enumerate(names):
        if not name or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
            what = "is empty"
            if name:
                what = f"{name!r} holds a control character"
            raise DataError(f"{origin}: class name {what} (label {label}); name it in plain text")


ListedImage = tuple[str, int | None, str | None, str]
"""Path, label, class name and split of an image in a list; the label or the class name may be None, but not both."""


def listing_of(
    rows: Sequence[ListedImage], *, names: Sequence[str] | None = None, root: str, wanted: Collection[str], origin: str
) -> Listing:
    """The listing of a list of images, which all layouts have but folders of classes.

    Args:
        rows: all images; splits have our names or usual ones (`SPLIT_NAMES`).
        names: all class names in label order; None: those in `rows`, by label or else sorted.
        root, origin: as in `Listing`.
        wanted: the splits to list; the others only have a say in what the classes are called.

    Raises:
        DataError: a class that is not among `names`, two names for one label, or a gap in the labels.
    """
    if names is None:
        names = _names_by_label(rows, origin=origin)
        if not names:
            names = sorted({name for _, _, name, _ in rows if name is not None})
    # Rows may name a class as the list of classes does or in its cleaned form.
    label_of: dict[str | None, int] = {}
    for label_here, class_name in enumerate(names):
        label_of[clean_class_name(class_name)] = label_here
        label_of[class_name] = label_here
    images: dict[str, list[tuple[str, int]]] = {}
    for path, label, name, split in rows:
        if label is None:
            if name not in label_of:
                raise DataError(f"{origin}: class {name!r} is not in the list of classes; add it, or correct the row")
            label = label_of[name]
        images.setdefault(split_name(split), []).append((path, label))
    splits = in_splits({split: images[split] for split in images if split in wanted})
    return Listing(root, [clean_class_name(name) for name in names], splits, origin=origin)


def split_name(text: str) -> str:
    """Our name of a split that is written in a usual way; any other text as it is.

    >>> split_name("Train"), split_name("VALIDATION"), split_name("Extra")
    ('train', 'val', 'Extra')
    """
    fold = text.strip().casefold()
    ours = SPLIT_NAMES.get(fold, fold)
    return ours if ours in SPLIT_NAMES.values() else text


def in_splits(images: Mapping[str, Sequence[tuple[str, int]]]) -> dict[str, Split]:
    """Splits from the (path, label) pairs of each."""
    return {split: split_of(pairs) for split, pairs in images.items()}


def split_of(images: Sequence[tuple[str, int]]) -> Split:
    """A split from (path, label) pairs."""
    paths = [path for path, _ in images]
    labels = [label for _, label in images]
    # The type is said, because an empty list would become floats.
    return Split(paths, np.array(labels, dtype=np.int64))


def _names_by_label(rows: Sequence[ListedImage], *, origin: str) -> list[str]:
    """Class names in label order; none where rows have no labels."""
    names: dict[int, str] = {}
    for _, label, name, _ in rows:
        if label is not None and name is not None and names.setdefault(label, name) != name:
            raise DataError(
                f"{origin}: label {label} has two class names, {names[label]!r} and {name!r}; keep one of them"
            )
    largest = max(names, default=-1)
    missing = sorted(set(range(largest)) - set(names))
    if missing:
        raise DataError(
            f"{origin}: no image has label {some(missing)}, though labels go up to {largest}; labels must count "
            "from 0 without gaps"
        )
    return [names[label] for label in range(len(names))]


# ------------------------------------------------------------------------------------ values of lists: labels, paths

Checked = TypeVar("Checked")
Label = Annotated[int, Field(ge=0, le=LARGEST_LABEL)]


def read_json_as(path: Path, kind: type[Checked], *, expected: str) -> Checked:
    """A JSON file of a known shape, which `expected` describes.

    Raises:
        MissingError: no such file.
        DataError: unreadable, or of another shape; says where.
    """
    text = read_text(path)
    with refusing(path, expected=expected):
        return TypeAdapter(kind).validate_json(text, strict=True)


@contextmanager
def refusing(path: Path, *, expected: str) -> Iterator[None]:
    """Turn the first problem that pydantic finds in the contents of a file into one line."""
    try:
        yield
    except ValidationError as error:
        raise DataError(one_line(f"{path}: {in_file(error)}; expected {expected}")) from None


def relative(path: str, *, origin: str) -> str:
    """A listed path, normalised: relative, inside the root, with forward slashes.

    Raises:
        DataError: a URL, absolute, leaving the root through ``..``, or not a possible file name.
    """
    if "\0" in path:
        raise DataError(f"{origin}: path {path[:100]!r} is not a file name; correct the row")
    has_colon = ":" in path
    if has_colon and names_url(path):
        raise DataError(f"{origin}: path {path[:100]!r} is a URL, which is not fetched; list files below the root")
    if path.startswith("/") or (has_colon and DRIVE.match(path)):
        raise DataError(f"{origin}: path {path!r} is absolute; list paths relative to the dataset's root")
    # Normalising costs microseconds a path, and a list may have a million that need none.
    if "\\" in path or "//" in path or "./" in path or path.endswith(("..", "/.", "/")):
        steps = posixpath.normpath(path.replace("\\", "/").lstrip("/"))
        if steps == ".." or steps.startswith("../"):
            raise DataError(f"{origin}: path {path!r} leaves the dataset's root; list paths inside the root only")
        path = "" if steps == "." else steps
    if not path:
        raise DataError(f"{origin}: an image has an empty path")
    return path


def some(items: Sequence[object], *, limit: int = 3) -> str:
    """The first few items and the number of the others, for messages: ``'a', 'b', 'c' and 4 more``."""
    text = ", ".join(repr(item) for item in items[:limit])
    if len(items) > limit:
        text += f" and {len(items) - limit:,} more"
    return text
