"""ImageFolder: root/{train,val,test}/class/.../image, or root/class/.../image for a test set alone.

Labels follow the sorted folder names. An optional ``classnames.txt`` in the root renames them, one line per class: the
folder's name, white space, the class name (CoOp's form, ``n01440764 tench``).

`divided` splits a folder without train/ and test/ by the digests of its images. An image stays on its side whatever is
added, removed or renamed, copies of one photograph lie on the same side, and everybody with the same images has the
same split. The test share of a class is the fraction on average, not exactly.
"""

import dataclasses
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from wsoup.base.errors import DataError, MissingError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.listing import IMAGE_SUFFIXES, Listing, Split, some
from wsoup.disk.files import read_text, reason_of, regular_file, shown

SPLIT_FOLDERS = ("train", "val", "test")
MAX_DEPTH = 32
"""Nested folders below a class folder; Linux follows 40 links in a path, so a loop of links gets here."""


def read(
    root: str,
    *,
    wanted: Collection[str] = SPLIT_FOLDERS,
    class_names: str | None = None,
    may_be_empty: bool = False,
) -> Listing:
    """List an ImageFolder.

    Args:
        root: the folder.
        wanted: the splits to list; the classes are those of these splits.
        class_names: a file like ``classnames.txt`` elsewhere, or None.
        may_be_empty: whether to leave out classes without any image, rather than to refuse an empty class folder.

    Raises:
        MissingError: no such folder.
        DataError: no class folders, an empty one, a name that is not UTF-8, a loop of symbolic links, or something
            named like an image that is not a file.
    """
    base = require_folder(root)
    folders = _folders_of_splits(base, wanted=wanted)
    classes = _classes_in(folders)
    if may_be_empty:
        classes = [name for name in classes if any(_has_images(folder / name) for folder in folders.values())]
    if not classes:
        raise DataError(
            f"{root} has no class folders; expected {root}/train/<class>/<image> and {root}/test/<class>/<image>, "
            f"or {root}/<class>/<image>"
        )
    splits = {}
    for name, folder in folders.items():
        splits[name] = list_split(base, folder=folder, classes=classes, may_be_empty=may_be_empty)
    names_file = Path(class_names) if class_names else base / "classnames.txt"
    renamed = {}
    # A broken link counts as a file that is there: whoever made it meant the classes to be renamed.
    if class_names or os.path.lexists(names_file):
        renamed = read_class_names(names_file)
    if not renamed:
        renamed = {name: name for name in classes}
    names = names_of(classes, renamed=renamed, origin=str(names_file))
    return Listing(root, names, splits, origin=root)


def class_folders(root: str) -> list[str]:
    """Sorted names of all class folders that `read` sees, empty ones too; it raises as `read`."""
    return _classes_in(_folders_of_splits(require_folder(root), wanted=SPLIT_FOLDERS))


def _folders_of_splits(base: Path, *, wanted: Collection[str]) -> dict[str, Path]:
    """The folder of each split, which holds class folders."""
    # A folder that holds only images is a class, whatever its name: there are photographs of trains. But where there
    # are no other folders, or another one holds classes, it is a split without class folders.
    top = subfolders(base)
    with_classes = [name for name in SPLIT_FOLDERS if name in top and subfolders(base / name)]
    only_splits = bool(with_classes) or {*top} <= {*SPLIT_FOLDERS}
    if only_splits:
        for name in SPLIT_FOLDERS:
            if name in top and name in wanted and name not in with_classes:
                raise DataError(f"{base / name} has no class folders; expected {base / name}/<class>/<image>")
    split_folders = {name: base / name for name in with_classes} or {"test": base}
    # If none of the wanted splits is there, all are listed, so that the caller's error can name them.
    return {name: folder for name, folder in split_folders.items() if name in wanted} or split_folders


def _classes_in(folders: Mapping[str, Path]) -> list[str]:
    names: set[str] = set()
    for folder in folders.values():
        names.update(subfolders(folder))
    return sorted(names)


def _has_images(folder: Path) -> bool:
    return folder.is_dir() and next(_images(folder, depth=0), None) is not None


def divided(listing: Listing, *, fraction: float, test_split: str) -> Listing:
    """Split a folder of classes into train and `test_split`.

    Args:
        listing: as `read` lists it, with all images in ``test``.
        fraction: share of test images, between 0 and 1.
        test_split: name of the split of the test images.

    Raises:
        DataError: the folder has splits already.
        MissingError: an image is gone.
    """
    is_divided = set(listing.splits) != {"test"}
    if not is_divided:
        # A folder that holds nothing but test/ is listed like one without splits, but for its paths.
        is_divided = any(path.startswith("test/") for path in listing.splits["test"].paths)
    if is_divided:
        raise DataError(
            f"{listing.origin} is divided into {', '.join(listing.splits)} already; test_fraction is for a folder of "
            "classes without train/ and test/: remove it, or move the classes up"
        )
    from wsoup.datasets import digests  # which needs pyarrow

    images = listing.splits["test"]
    _, hexes = digests.of_images(listing.root, images.paths, origin=listing.origin)
    for_test = np.array([is_test(digest, fraction=fraction) for digest in hexes], dtype=bool)
    splits = {}
    for name, mask in (("train", ~for_test), (test_split, for_test)):
        paths = [images.paths[i] for i in np.flatnonzero(mask).tolist()]
        splits[name] = Split(paths, images.labels[mask])
    origin = f"{listing.origin} ({100 * fraction:g} % for testing, by digest)"
    return dataclasses.replace(listing, splits=splits, origin=origin)


def is_test(digest: str, *, fraction: float) -> bool:
    """Whether an image with this SHA-256, in hex, is a test image.

    >>> is_test("3f" + 62 * "0", fraction=0.25), is_test("40" + 62 * "0", fraction=0.25)
    (True, False)
    """
    return int(digest[:13], 16) < fraction * 16**13  # 52 bits, which a float holds


# ----------------------------------------------------------------------------------- folders and files of class names


def require_folder(root: str | Path) -> Path:
    """The folder `root`, or MissingError."""
    if not os.path.isdir(root):
        raise MissingError(f"{root} does not exist or is not a folder; correct the dataset's root in params.yaml")
    return Path(root)


def subfolders(folder: Path) -> list[str]:
    """Sorted names of the folders in a folder, without hidden ones."""
    return sorted(entry.name for entry in _entries(folder) if os.path.isdir(entry.path))


def prefix_of(base: Path, folder: Path) -> str:
    """Prefix of the files of a folder in paths relative to `base`: ``""`` or ``"a/b/"``."""
    path = folder.relative_to(base).as_posix()
    return "" if path == "." else f"{path}/"


def list_split(base: Path, *, folder: Path, classes: Sequence[str], may_be_empty: bool = False) -> Split:
    """All images under folder/<class>, labelled by the position of the class in `classes`.

    Raises:
        DataError: a class folder without images, unless it may be empty.
    """
    paths: list[str] = []
    counts = np.zeros(len(classes), dtype=np.int64)
    prefix = prefix_of(base, folder)
    for label, name in enumerate(classes):
        if (folder / name).is_dir():
            images = sorted(_images(folder / name, depth=0))
            if not images and not may_be_empty:
                raise DataError(f"{folder / name} holds no images; add some or remove the folder")
            paths.extend(f"{prefix}{name}/{image}" for image in images)
            counts[label] = len(images)
    labels = np.arange(len(classes), dtype=np.int64)
    return Split(paths, np.repeat(labels, counts))


def read_class_names(path: Path) -> dict[str, str]:
    """Class name by folder, from lines of ``folder name``, in file order.

    Raises:
        MissingError: no such file.
        DataError: a line without a name, or a folder that appears twice.
    """
    if not path.is_file():
        raise MissingError(f"{path} does not exist; expected one line per class: folder, a space, class name")
    names: dict[str, str] = {}
    for number, text in enumerate(read_text(path).split("\n"), start=1):
        line = text.strip()
        if not line:
            continue
        # With a tab between them, the folder's own name may have spaces.
        separator = "\t" if "\t" in line else " "
        folder, _, name = line.partition(separator)
        if not name.strip():
            raise DataError(f"{path}, line {number}: {line!r} should be: folder, a space, class name")
        if folder in names:
            raise DataError(f"{path}, line {number}: folder {folder!r} is named twice; keep one line")
        names[folder] = name.strip()
    return names


def names_of(folders: Sequence[str], *, renamed: dict[str, str], origin: str) -> list[str]:
    """Cleaned class names of folders, in their order; DataError where one has none."""
    unnamed = [folder for folder in folders if folder not in renamed]
    if unnamed:
        raise DataError(f"{origin} has no line for folder {some(unnamed)}; add one: folder, a space, class name")
    return [clean_class_name(renamed[folder]) for folder in folders]


def read_lines(path: Path, *, hint: str) -> list[str]:
    """The lines of a text file, stripped, without empty ones; MissingError with a hint if there is no such file."""
    if not path.is_file():
        raise MissingError(f"{path} does not exist; {hint}")
    return [line.strip() for line in read_text(path).split("\n") if line.strip()]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Entries of a folder, without hidden ones."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"{shown(str(folder))} cannot be listed ({reason_of(error)}); repair or remove it") from None


def _images(folder: Path, *, depth: int) -> Iterator[str]:
    """Paths of the images below a folder, relative to it."""
    if depth > MAX_DEPTH:
        raise DataError(
            f"{shown(str(folder))} lies more than {MAX_DEPTH} folders deep; move the images up, or remove a link "
            "that leads back"
        )
    for entry in _entries(folder):
        suffix = os.path.splitext(entry.name)[1]
        if suffix.lower() in IMAGE_SUFFIXES:
            # The directory entry itself says what most files are, without a call to the system for each.
            if not entry.is_file(follow_symlinks=False):
                regular_file(entry.path)
            yield entry.name
        elif os.path.isdir(entry.path):
            for path in _images(Path(entry.path), depth=depth + 1):
                yield f"{entry.name}/{path}"
