"""ImageFolder: root/{train,val,test}/class/.../image, or root/class/.../image for a test set alone.

Labels follow the sorted folder names. An optional ``classnames.txt`` in the root renames them, one line per class: the
folder's name, white space, the class name (CoOp's form, ``n01440764 tench``).

`divided` splits a folder without train/ and test/ by the digests of its images. An image stays on its side whatever is
added, removed or renamed, copies of one photograph lie on the same side, and everybody with the same images has the
same split. The test share of a class is the fraction on average, not exactly.
"""

import dataclasses
import os
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from wsoup.base.errors import DataError
from wsoup.datasets.listing import Listing, Split
from wsoup.datasets.walk import (
    SPLIT_FOLDERS,
    images_below,
    list_split,
    names_of,
    read_class_names,
    require_folder,
    subfolders,
)


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
    return folder.is_dir() and next(images_below(folder), None) is not None


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
