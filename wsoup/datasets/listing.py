"""`Listing`, which every layout is read into: all images of a dataset by split, with labels and class names.

ImageNet's training set has 1.3 million images, so a listing holds columns, not one object per image.
"""

import itertools
import posixpath
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wsoup.base.errors import DataError
from wsoup.core.prompts import clean_class_name

IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".png", ".webp", ".avif", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
)  # compared in lower case; other files are ignored
LARGEST_LABEL = 10**6
"""A larger label is a mistake, and a list with one entry per label would take all memory."""


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
    """

    root: str
    class_names: list[str]
    splits: Mapping[str, Split]
    origin: str
    names_may_repeat: bool = False

    def split(self, name: str) -> Split:
        """A split by name; the error lists the existing ones."""
        if name not in self.splits:
            raise DataError(
                f"{self.origin} has no split {name!r}, only {', '.join(self.splits) or 'none'}; "
                "name one of these in test_split, or add the images"
            )
        return self.splits[name]


def validated(listing: Listing) -> Listing:
    """The listing itself, or DataError with its first problem."""
    for problem in problems(listing):
        raise DataError(problem)
    return listing


def problems(listing: Listing) -> Iterable[str]:
    """One sentence per problem that makes a listing unusable: names, labels, empty classes, duplicates."""
    names, origin = listing.class_names, listing.origin
    for name, count in Counter(names).items():
        if count > 1 and not listing.names_may_repeat:
            labels = [i for i, other in enumerate(names) if other == name]
            yield f"{origin}: class name {name!r} is used for labels {labels}; give each label its own name"
    for label, name in enumerate(names):
        if not name:
            yield f"{origin}: label {label} has an empty class name; name it"
        elif any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
            yield f"{origin}: class name {name!r} holds a control character; name it in plain text"
    used = np.zeros(len(names), dtype=bool)
    for name, split in listing.splits.items():
        outside = (split.labels < 0) | (split.labels >= len(names))
        if outside.any():
            i = int(outside.argmax())
            yield (
                f"{origin}: {split.paths[i]} ({name}) has label {split.labels[i]}, out of range for {len(names)} "
                f"classes (0 to {len(names) - 1}); correct the label or the list of class names"
            )
        else:
            used[split.labels] = True
        if len(set(split.paths)) < len(split.paths):
            repeated = [path for path, count in Counter(split.paths).items() if count > 1]
            yield f"{origin} ({name}) lists {some(repeated)} more than once; list every image once"
    if not any(split.paths for split in listing.splits.values()):
        yield f"{origin} lists no images; expected {' '.join(sorted(IMAGE_SUFFIXES))} files in class folders or a list"
    elif not used.all():
        empty = [names[i] for i in np.flatnonzero(~used)]
        yield f"{origin}: no image in class {some(empty)}; add images, or remove the class from the class list"


def split_of(rows: Sequence[tuple[str, int]]) -> Split:
    """A split from (path, label) pairs."""
    return Split([path for path, _ in rows], np.array([label for _, label in rows], dtype=np.int64))


# -------------------------------------------------------------------------------- values of lists: labels, names, paths


def label_number(value: object, *, origin: str) -> int:
    """A label as an int; DataError unless it is a whole number.

    >>> label_number(7, origin="list.csv")
    7
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or abs(int(value)) > LARGEST_LABEL:
        text = str(value) if len(str(value)) < 40 else f"{str(value)[:40]}..."
        raise DataError(f"{origin}: label {text} is not a whole number up to {LARGEST_LABEL:,}; labels count from 0")
    return int(value)


def names_by_label(pairs: Iterable[tuple[int, str]], *, origin: str) -> list[str]:
    """Cleaned class names in label order, from (label, name) pairs.

    Raises:
        DataError: two names for one label, or a gap in the labels.
    """
    names: dict[int, str] = {}
    for label, raw in pairs:
        if label < 0:
            raise DataError(f"{origin}: label {label} of class {raw!r} is out of range; labels count from 0")
        name = names.setdefault(label, raw)
        if name != raw:
            raise DataError(f"{origin}: label {label} has two class names, {name!r} and {raw!r}; keep one of them")
    top = max(names, default=-1)
    if top + 1 > len(names):
        missing = itertools.islice((label for label in range(top) if label not in names), 3)
        more = top + 1 - len(names) - 3
        raise DataError(
            f"{origin}: no image has label {', '.join(map(str, missing))}{f' and {more:,} more' if more > 0 else ''}, "
            f"though labels go up to {top}; labels must count from 0 without gaps"
        )
    return [clean_class_name(names[label]) for label in range(len(names))]


def relative(path: str, *, origin: str) -> str:
    """A listed path, normalised: relative, inside the root, with forward slashes.

    Raises:
        DataError: absolute, leaving the root through ``..``, or not a possible file name.
    """
    if "\0" in path or not is_utf8(path):
        raise DataError(f"{origin}: path {path[:100]!r} is not a file name; correct the row")
    if path.startswith("/"):
        raise DataError(f"{origin}: path {path!r} is absolute; list paths relative to the dataset's root")
    if "\\" in path or "//" in path or "./" in path or path.endswith(".."):
        steps = posixpath.normpath(path.replace("\\", "/").lstrip("/"))
        if steps == ".." or steps.startswith("../"):
            raise DataError(f"{origin}: path {path!r} leaves the dataset's root; list paths inside the root only")
        path = "" if steps == "." else steps
    if not path:
        raise DataError(f"{origin}: an image has an empty path")
    return path


def is_utf8(text: str) -> bool:
    """Whether a name is UTF-8; Python shows the odd bytes of one that is not as lone surrogates."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def some(items: Sequence[object], *, limit: int = 3) -> str:
    """The first few items and the number of the others, for messages: ``'a', 'b', 'c' and 4 more``."""
    text = ", ".join(repr(item) for item in items[:limit])
    return text + (f" and {len(items) - limit:,} more" if len(items) > limit else "")
