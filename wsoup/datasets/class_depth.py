"""Which folders are the classes where photos lie deeper than one: those within may be copies, details or classes."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wsoup.base.errors import DataError
from wsoup.base.folder_names import key
from wsoup.datasets.flat_names import inner_folders_list
from wsoup.datasets.part_names import are_parts, is_detail
from wsoup.datasets.shape import OF_PHOTOS

A_FILE = "name the classes in a file ({0}, a tab, class name on a line)"


class ClassFolders(NamedTuple):
    """What the folders of one name hold, in all splits.

    Attributes:
        place: the first of them.
        images: relative to the folders.
        others: files that are no photos, by their ending.
    """

    place: Path
    images: list[str]
    others: Counter[str]


def check_depth(classes: Mapping[str, ClassFolders], *, base: Path) -> None:
    """Refuse photos that lie two folders deep, if the inner folders may be the classes."""
    n_photos = sum(len(one.images) for one in classes.values())
    n_nested = sum(path.count("/") > 0 for one in classes.values() for path in one.images)
    if len(classes) < 2 or 2 * n_nested <= n_photos:
        return
    _check_copies(classes, base=base)
    inner = _inner_folders(classes)
    different = sorted(set().union(*inner.values()))
    if _hold_details(inner, different=different) and not _hold_classes_deeper(classes):
        return
    holding = [name for name in classes if inner[name]]
    shown = ", ".join(
        f"{name}/{min(filter(None, map(os.path.dirname, classes[name].images)))}/" for name in holding[:3]
    )
    proposed = ""
    if len(different) > 1 and all(one.place.parent == base for one in classes.values()):
        proposed = inner_folders_list(base, [f"{name}/{path}" for name, one in classes.items() for path in one.images])
    raise DataError(
        f"{base}: photos lie two folders deep, as in {shown}, so it is not clear which folders are the classes; put "
        f"each class's photos into one folder, or, if {holding[0]!r} is a class, {A_FILE.format(holding[0])}{proposed}"
    )


def _hold_details(inner: Mapping[str, set[str]], *, different: Sequence[str]) -> bool:
    """Whether the folders within others divide a class and are none: several hold the same, called like details."""
    if {name.casefold() for name in different} <= OF_PHOTOS:
        return True
    if are_parts([*inner], inner=different):
        return False
    shared = [name for name in different if sum(name in folders for folders in inner.values()) > 1]
    return len(different) < 2 or (2 * len(shared) >= len(different) and all(map(is_detail, different)))


def _hold_classes_deeper(classes: Mapping[str, ClassFolders]) -> bool:
    """Whether several folders below those within others have names of their own, as in ImageNet-C's ``fog/1/dog``."""
    deeper = {name for one in classes.values() for path in one.images for name in path.split("/")[1:-1]}
    return len(deeper) > 1 and not all(map(is_detail, deeper))


def _inner_folders(classes: Mapping[str, ClassFolders]) -> dict[str, set[str]]:
    """The folders of each class at the first depth at which there are several in all."""
    nested = {name: [path.split("/")[:-1] for path in one.images] for name, one in classes.items()}
    while True:
        inner = {name: {folders[0] for folders in of_class if folders} for name, of_class in nested.items()}
        deeper = {name: [folders[1:] for folders in of_class] for name, of_class in nested.items()}
        if len(set().union(*inner.values())) > 1 or not any(map(any, deeper.values())):
            return inner
        nested = deeper


def _check_copies(classes: Mapping[str, ClassFolders], *, base: Path) -> None:
    """Refuse folds or copies of one dataset: folders each of which holds two or more folders that others hold, too."""
    branches = {name: _branches(one) for name, one in classes.items()}
    count = Counter(fold for of_class in branches.values() for fold in of_class)
    if any(sum(count[fold] > 1 for fold in of_class) < 2 for of_class in branches.values()):
        return
    first, second, *_ = classes
    folds = sorted(fold for fold in branches[first] if count[fold] > 1)
    shown = " and ".join(f"{branches[first][fold]}/" for fold in folds[:2])
    raise DataError(
        f"{base}: {first}/ and {second}/ hold the same folders, such as {shown}, so it is not clear which folders are "
        f"the classes; name one of them ({classes[first].place}), put each class's photos into one folder, or, if "
        f"{first!r} is a class, {A_FILE.format(first)}"
    )


def _branches(one: ClassFolders) -> dict[str, str]:
    """The folders of a class at the first depth at which there are several, by their `key`."""
    (names,) = _inner_folders({"": one}).values()
    return {key(name): name for name in names}


def nested_classes(images_of: Mapping[str, Sequence[str]]) -> str:
    """A line on photos in folders of class folders, which count to the class; "" if there are none."""
    nested = {}
    for name, paths in images_of.items():
        n_photos = sum("/" in path for path in paths)
        if n_photos:
            nested[name] = n_photos
    if not nested:
        return ""
    name = next(iter(nested))
    folder = min(_first_folders(images_of[name]))
    return (
        f"{len(nested):,} of {len(images_of):,} class folders hold folders, whose {sum(nested.values()):,} photos "
        f"count to the class: {name}/{folder}/ to {name!r}"
    )


def _first_folders(paths: Sequence[str]) -> set[str]:
    """Names of the folders directly below a class folder that hold photos."""
    return {path.partition("/")[0] for path in paths if "/" in path}
