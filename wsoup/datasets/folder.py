"""ImageFolder: root/{train,val,test}/class/.../image, or root/class/.../image for a test set alone.

Which folders are splits and which are classes is decided by `wsoup.datasets.shape`. Labels follow the sorted names of
class folders. An optional ``classnames.txt`` in the root renames them, one line per class: the folder's name, white
space, the class name (CoOp's form, ``n01440764 tench``).

Class folders without images count as if they were not there, and so does a split that has no others. Whoever lists a
folder for a user says which these are (`wsoup.datasets.left_out`).
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from wsoup.base.errors import DataError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.listing import IMAGE_SUFFIXES, Listing, some
from wsoup.datasets.names_file import of_folders
from wsoup.datasets.shape import Shape, check_classes, shape_of
from wsoup.datasets.walk import (
    SPLIT_FOLDERS,
    has_photos,
    images_below,
    names_of,
    prefix_of,
    read_class_names,
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
        DataError: no class folders, none with an image, folders that are probably no classes and that no file names, a
            class folder without a line in `class_names`, a name that is not UTF-8, a loop of symbolic links, or
            something named like an image that is not a file.
    """
    shape = shape_of(root)
    base = shape.base
    folders = _wanted_folders(shape, wanted=wanted)
    images_of = {name: _images_by_class(folder) for name, folder in folders.items()}
    classes = _all_classes(images_of.values())
    if not classes:
        raise _no_classes(base, folders=folders.values())
    splits = {}
    for name, images in images_of.items():
        if images:
            splits[name] = split_of_folders(images, classes=classes, prefix=prefix_of(base, folders[name]))
    names = _names(base, images_of=_of_all_splits(images_of.values()), classes=classes, class_names=class_names)
    # Two folders may be called alike by the user, as ImageNet's two of "missile".
    return Listing(root, names, splits, origin=root, names_may_repeat=True)


def _names(
    base: Path, *, images_of: Mapping[str, list[str]], classes: Sequence[str], class_names: str | None
) -> list[str]:
    """The cleaned names of class folders: of the user's file, of classnames.txt, or their own."""
    if class_names:
        return [clean_class_name(name) for name in of_folders(class_names, folders=classes)]
    of_coop = base / "classnames.txt"
    renamed = {}
    # A broken link counts as a file that is there: whoever made it meant the classes to be renamed.
    if os.path.lexists(of_coop):
        renamed = read_class_names(of_coop)
    if not renamed:
        check_classes(images_of, base=base)
        renamed = {name: name for name in classes}
    return names_of(classes, renamed=renamed, origin=str(of_coop))


def class_folders(root: str, *, wanted: Collection[str] = SPLIT_FOLDERS) -> list[str]:
    """The class folders that `read` lists, in label order; it raises as `read`."""
    folders = _wanted_folders(shape_of(root), wanted=wanted).values()
    classes = []
    for name in _all_classes(subfolders(folder) for folder in folders):
        if any(has_photos(folder / name) for folder in folders):
            classes.append(name)
    return classes


def splits_with_images(root: str) -> list[str]:
    """Which of train, val and test are folders of classes with images; none in a folder of classes alone.

    Raises:
        MissingError, DataError: as `read`.
    """
    splits = []
    for split, folder in shape_of(root).splits.items():
        if any(has_photos(folder / name) for name in subfolders(folder)):
            splits.append(split)
    return splits


def _wanted_folders(shape: Shape, *, wanted: Collection[str]) -> Mapping[str, Path]:
    """The folder of each wanted split, which holds class folders."""
    top = subfolders(shape.base)
    for name in SPLIT_FOLDERS:
        flat = shape.flat.get(name)
        # Where there are no other folders, a split's folder without folders is no class.
        if not shape.splits and {*top} <= {*SPLIT_FOLDERS} and name in top:
            flat = shape.base / name
        if flat is not None and name in wanted:
            raise DataError(f"{flat} has no class folders; expected {flat}/<class>/<image>")
    of_split = shape.holders
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


def _of_all_splits(of_splits: Iterable[Mapping[str, list[str]]]) -> dict[str, list[str]]:
    """Images of each class folder, of all splits."""
    images_of: dict[str, list[str]] = {}
    for of_split in of_splits:
        for name, images in of_split.items():
            images_of.setdefault(name, []).extend(images)
    return images_of


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
