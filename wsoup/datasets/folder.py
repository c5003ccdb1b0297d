"""ImageFolder: root/{train,val,test}/class/.../image, or root/class/.../image for a test set alone.

Labels follow the sorted folder names. An optional ``classnames.txt`` in the root renames them, one line per class: the
folder's name, white space, the class name (CoOp's form, ``n01440764 tench``).

Class folders without images count as if they were not there, and so does a split that has no others. Whoever lists a
folder for a user says which these are (`wsoup.datasets.left_out`).
"""

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from wsoup.base.errors import DataError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.listing import IMAGE_SUFFIXES, Listing, some
from wsoup.datasets.names_file import of_folders
from wsoup.datasets.walk import (
    SPLIT_FOLDERS,
    images_below,
    names_of,
    prefix_of,
    read_class_names,
    require_folder,
    split_of_folders,
    subfolders,
)


def read(root: str, *, wanted: Collection[str] = SPLIT_FOLDERS, class_names: str | None = None) -> Listing:
    """List an ImageFolder.

    Args:
        root: the folder.
        wanted: the splits to list; the classes are those of these splits.
        class_names: a file of class names by folder (`wsoup.datasets.names_file`), or None.

    Raises:
        MissingError: no such folder or file.
        DataError: no class folders, none with an image, one without a line in `class_names`, a name that is not UTF-8,
            a loop of symbolic links, or something named like an image that is not a file.
    """
    base = require_folder(root)
    folders = _wanted_folders(base, wanted=wanted)
    images_of = {name: _images_by_class(folder) for name, folder in folders.items()}
    classes = _all_classes(images_of.values())
    if not classes:
        raise _no_classes(base, folders=folders.values())
    splits = {}
    for name, images in images_of.items():
        if images:
            splits[name] = split_of_folders(images, classes=classes, prefix=prefix_of(base, folders[name]))
    names = _names(base, classes=classes, class_names=class_names)
    # Two folders may be called alike by the user, as ImageNet's two of "missile".
    return Listing(root, names, splits, origin=root, names_may_repeat=True)


def _names(base: Path, *, classes: Sequence[str], class_names: str | None) -> list[str]:
    """The cleaned names of class folders: of the user's file, of classnames.txt, or their own."""
    if class_names:
        return [clean_class_name(name) for name in of_folders(class_names, folders=classes)]
    of_coop = base / "classnames.txt"
    renamed = {}
    # A broken link counts as a file that is there: whoever made it meant the classes to be renamed.
    if os.path.lexists(of_coop):
        renamed = read_class_names(of_coop)
    if not renamed:
        renamed = {name: name for name in classes}
    return names_of(classes, renamed=renamed, origin=str(of_coop))


def class_folders(root: str, *, wanted: Collection[str] = SPLIT_FOLDERS) -> list[str]:
    """The class folders that `read` lists, in label order; it raises as `read`."""
    base = require_folder(root)
    folders = _wanted_folders(base, wanted=wanted).values()
    classes = []
    for name in _all_classes(subfolders(folder) for folder in folders):
        if any(_has_images(folder / name) for folder in folders):
            classes.append(name)
    return classes


def splits_with_images(root: str) -> list[str]:
    """Which of train, val and test are folders of classes with images; none in a folder of classes alone.

    Raises:
        MissingError, DataError: as `read`.
    """
    base = require_folder(root)
    splits = []
    for split, folder in split_folders(base).items():
        if any(_has_images(folder / name) for name in subfolders(folder)):
            splits.append(split)
    return splits


def split_folders(base: Path) -> dict[str, Path]:
    """The folders train, val and test below `base` that hold folders, by name; they make it a divided dataset.

    One that holds only images is a class, whatever its name: there are photographs of trains.
    """
    top = subfolders(base)
    return {name: base / name for name in SPLIT_FOLDERS if name in top and subfolders(base / name)}


def _wanted_folders(base: Path, *, wanted: Collection[str]) -> dict[str, Path]:
    """The folder of each wanted split, which holds class folders."""
    with_classes = split_folders(base)
    top = subfolders(base)
    # Where there are no other folders, or another one holds classes, a split's folder without folders is no class.
    only_splits = bool(with_classes) or {*top} <= {*SPLIT_FOLDERS}
    if only_splits:
        for name in SPLIT_FOLDERS:
            if name in top and name in wanted and name not in with_classes:
                raise DataError(f"{base / name} has no class folders; expected {base / name}/<class>/<image>")
    of_split = with_classes or {"test": base}
    # If none of the wanted splits is there, all are listed, so that the caller's error can name them.
    return {name: folder for name, folder in of_split.items() if name in wanted} or of_split


def _images_by_class(folder: Path) -> dict[str, list[str]]:
    """Sorted images of each class folder that has any, relative to it."""
    images_of = {}
    for name in subfolders(folder):
        images = sorted(images_below(folder / name))
        if images:
            images_of[name] = images
    return images_of


def _has_images(folder: Path) -> bool:
    return folder.is_dir() and next(images_below(folder), None) is not None


def _all_classes(of_splits: Iterable[Iterable[str]]) -> list[str]:
    """Class folders of any split, sorted, which is the order of labels."""
    names: set[str] = set()
    for folders in of_splits:
        names.update(folders)
    return sorted(names)


def _no_classes(base: Path, *, folders: Collection[Path]) -> DataError:
    """The error for a folder without class folders, or with none that holds images."""
    empty = [str(folder / name) for folder in folders for name in subfolders(folder)]
    if empty:
        kinds = " ".join(sorted(IMAGE_SUFFIXES))
        return DataError(f"no class folder of {base} holds an image ({some(empty)}); add {kinds} files")
    return DataError(
        f"{base} has no class folders; expected {base}/train/<class>/<image> and {base}/test/<class>/<image>, "
        f"or {base}/<class>/<image>"
    )
