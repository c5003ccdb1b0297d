"""Which folders are the classes where photos lie deeper than one: those within may be copies, details or classes."""

import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wsoup.base.errors import LONGEST, DataError
from wsoup.base.folder_names import key
from wsoup.datasets.flat_names import list_of_inner_folders
from wsoup.datasets.part_names import are_parts, is_detail
from wsoup.datasets.shape import OF_PHOTOS
from wsoup.datasets.walk import prefix_of

A_FILE = "name the classes in a file ({0}, a tab, class name on a line)"

UNCLEAR = "so it is not clear which folders are the classes"
WRITE_A_LIST = "write a list of the photos with their classes (docs/datasets.md)"


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


class Inner(NamedTuple):
    """Folders within class folders.

    Attributes:
        level: how many folders stand before these, the class folder included.
        of_class: their names by that of the class folder.
    """

    level: int
    of_class: dict[str, set[str]]


def check_depth(classes: Mapping[str, ClassFolders], *, base: Path, folders: Mapping[str, Path]) -> None:
    """Refuse photos that lie two folders deep, if the inner folders may be the classes; `folders` are of the splits."""
    n_photos = sum(len(one.images) for one in classes.values())
    n_nested = sum(path.count("/") > 0 for one in classes.values() for path in one.images)
    if len(classes) < 2 or 2 * n_nested <= n_photos:
        return
    splits = {split: prefix_of(base, folder) for split, folder in folders.items()}
    _check_copies(classes, base=base, splits=splits)
    inner = _inner_folders(classes)
    different = sorted(set().union(*inner.of_class.values()))
    if _hold_details(inner.of_class, different=different) and not _hold_classes_deeper(classes):
        return
    holding = [name for name in classes if inner.of_class[name]]
    shown = ", ".join(
        f"{name}/{min(filter(None, map(os.path.dirname, classes[name].images)))}/" for name in holding[:3]
    )
    what = (
        f"{_short(base)}: photos lie two folders deep, as in {shown}, {UNCLEAR}; "
        "put each class's photos into one folder, or, "
    )
    raise DataError(_with_two_readings(what, classes, inner, base=base, splits=splits))


def _with_two_readings(
    what: str, classes: Mapping[str, ClassFolders], inner: Inner, *, base: Path, splits: Mapping[str, str]
) -> str:
    """A message, and how to take the outer folders for the classes, and how to take the inner ones."""
    outer_name = next(name for name in classes if inner.of_class[name])
    inner_name = min(inner.of_class[outer_name])
    place = _short(base)
    holder = shlex.quote(os.path.join(place, next(iter(splits.values()))))
    # Photos deeper than these may lie in folders of classes, too.
    is_innermost = all(path.count("/") == inner.level for one in classes.values() for path in one.images)
    images = [f"{name}/{path}" for name, one in classes.items() for path in one.images]
    command = list_of_inner_folders(place, images, splits=splits) if is_innermost else ""
    by_command = f"ls {holder} > classes.txt, and give --classes classes.txt"
    as_inner = WRITE_A_LIST
    if command:
        as_inner = f"{command}, and name {os.path.join(place, 'list.csv')}"
    # A command that is cut does something else, so one that does not fit into a message is left out.
    in_a_file = A_FILE.format(outer_name)
    message = ""
    for outer, of_inner in ((by_command, as_inner), (by_command, WRITE_A_LIST), (in_a_file, WRITE_A_LIST)):
        message = f"{what}if {outer_name!r} is a class: {outer}; if {inner_name!r} is one: {of_inner}"
        if len(message) <= LONGEST:
            break
    return message


def _short(path: Path) -> str:
    """A path from the working folder, where a command of a message is run, or as it is if that is shorter."""
    return min(str(path), os.path.relpath(path), key=len)


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


def _inner_folders(classes: Mapping[str, ClassFolders]) -> Inner:
    """The folders of each class at the first depth at which there are several in all."""
    level = 1
    nested = {name: [path.split("/")[:-1] for path in one.images] for name, one in classes.items()}
    while True:
        inner = {name: {folders[0] for folders in of_class if folders} for name, of_class in nested.items()}
        deeper = {name: [folders[1:] for folders in of_class] for name, of_class in nested.items()}
        if len(set().union(*inner.values())) > 1 or not any(map(any, deeper.values())):
            return Inner(level, inner)
        nested = deeper
        level += 1


def _check_copies(classes: Mapping[str, ClassFolders], *, base: Path, splits: Mapping[str, str]) -> None:
    """Refuse folders each of which holds two or more folders that others hold, too.

    Either the inner ones are the classes, of folds or copies of one dataset say, or they are places within classes.
    """
    branches = {name: _inner_folders({name: one}) for name, one in classes.items()}
    keys = {name: {key(folder): folder for folder in inner.of_class[name]} for name, inner in branches.items()}
    n_holding = Counter(fold for of_class in keys.values() for fold in of_class)
    if any(sum(n_holding[fold] > 1 for fold in of_class) < 2 for of_class in keys.values()):
        return
    first, second, *_ = classes
    folds = sorted(fold for fold in keys[first] if n_holding[fold] > 1)
    shown = " and ".join(f"{keys[first][fold]}/" for fold in folds[:2])
    inner = Inner(max(one.level for one in branches.values()), {name: {*of.values()} for name, of in keys.items()})
    # Of folds and copies one is enough; of a class's folder it would be wrong.
    one_of_them = ""
    if are_parts([*classes], inner=sorted(set().union(*inner.of_class.values()))):
        one_of_them = f"name one of them ({_short(classes[first].place)}), or, "
    what = f"{_short(base)}: {first}/ and {second}/ hold the same folders, such as {shown}, {UNCLEAR}; {one_of_them}"
    raise DataError(_with_two_readings(what, classes, inner, base=base, splits=splits))


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
