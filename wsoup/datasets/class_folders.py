"""Whether the folders that are taken for classes are such: parts, splits, shards and copies of a dataset are not."""

import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wsoup.base.errors import DataError
from wsoup.base.folder_names import composed, key
from wsoup.datasets.boxes import boxes_line
from wsoup.datasets.flat_names import inner_folders_list, proposal
from wsoup.datasets.listing import some
from wsoup.datasets.part_names import NO_CLASSES, are_parts, in_split, is_date, is_detail, without_meaning
from wsoup.datasets.shape import OF_PHOTOS
from wsoup.datasets.walk import Contents, holds_photos_itself, subfolders

BESIDE_PHOTOS = {
    *("annotations", "annotation", "labels", "masks", "mask", "segmentations", "segmentation", "trimaps", "xmls"),
    *("attributes", "parts", "meta", "metadata", "lists", "devkit", "bounding_boxes", "bboxes", "imagesets", "docs"),
}
"""Names, in lower case, of folders beside that of the photos, which are no classes."""
NUMBERED = re.compile(r"^(?P<words>\D*?)[_.-]*\d+$")
OF_SHARDS = {"", "shard", "part", "chunk", "batch", "bucket"}
"""Words before the number of a shard's folder."""
BESIDE_SHARDS = (".parquet", "_stats.json", ".tar", ".json")
"""What img2dataset puts beside the folder of each shard, after the folder's name."""
A_FILE = "name the classes in a file ({0}, a tab, class name on a line)"


class _Class(NamedTuple):
    """What the folders of one name hold, in all splits.

    Attributes:
        place: the first of them.
        images: relative to the folders.
        others: files that are no photos, by their ending.
    """

    place: Path
    images: list[str]
    others: Counter[str]


def check_classes(found: Mapping[str, Mapping[str, Contents]], *, base: Path, folders: Mapping[str, Path]) -> None:
    """Refuse class folders that are more probably parts, shards or copies of a dataset, or hold the classes themselves.

    Args:
        found: what each class folder with photos holds, by split and name.
        base: the folder, for messages.
        folders: that of each split, which holds the class folders.

    Raises:
        DataError: says which folders, and what to do.
    """
    classes: dict[str, _Class] = {}
    for split, of_split in found.items():
        for name, contents in of_split.items():
            one = classes.setdefault(composed(name), _Class(folders[split] / name, [], Counter()))
            one.images.extend(contents.images)
            one.others.update(contents.others)
    _check_parts(classes, base=base)
    _check_splits(classes, base=base)
    _check_shards(classes, base=base)
    _check_depth(classes, base=base)
    _check_dates(classes, base=base)


def _check_parts(classes: Mapping[str, _Class], *, base: Path) -> None:
    """Refuse ``images/`` beside ``annotations/`` and the like, whether or not there are photos in the latter."""
    of_photos = [name for name in classes if name.casefold() in OF_PHOTOS]
    if not of_photos:
        return
    beside = [name for name in subfolders(base) if name.casefold() in BESIDE_PHOTOS]
    others = [name for name in classes if name.casefold() in BESIDE_PHOTOS] or beside
    # Whatever else holds pictures beside ``JPEGImages/`` and boxes, such as ``SegmentationClass/``, is no class either.
    if others and ({*classes} <= {*of_photos, *others} or boxes_line(base)):
        inner = innermost(classes[of_photos[0]].place)
        of_classes = [name for name in subfolders(inner) if in_split(name) is None]
        step = proposal(inner) or boxes_line(base) or "write a list of the photos with their classes (docs/datasets.md)"
        if len(of_classes) > 1:
            step = f"name {inner}"
        raise DataError(f"{base}: {of_photos[0]}/ and {others[0]}/ are parts of a dataset and not classes; {step}")


def _check_splits(classes: Mapping[str, _Class], *, base: Path) -> None:
    """Refuse ``train/`` and ``test/`` with photos alone, and names that are those of a split and a class at once."""
    plain: dict[str, str] = {}
    by_class: dict[str, dict[str, str]] = {}
    n_plain = 0
    for name in classes:
        named = in_split(name)
        if named is None:
            continue
        if without_meaning(named.rest):
            n_plain += 1
            plain[named.split] = name
        else:
            by_class.setdefault("_".join(named.rest).casefold(), {})[named.split] = name
    if n_plain == len(classes) and len(plain) > 1:
        shown = " and ".join(f"{name}/" for name in plain.values())
        step = boxes_line(base) or (
            f"expected {base / min(plain.values())}/<class>/<image>, or a list of the photos with their classes "
            "(docs/datasets.md)"
        )
        raise DataError(
            f"{base}: {shown} hold photos and no class folders, so that nothing says which class a photo is of; {step}"
        )
    for of_class, names in by_class.items():
        if len(names) > 1:
            split, name = next(iter(names.items()))
            shown = " and ".join(f"{name}/" for name in names.values())
            raise DataError(
                f"{base}: {shown} are named for a split and a class; put each class into a folder of its split (mkdir "
                f"-p {split} && mv {shlex.quote(name)} {shlex.quote(f'{split}/{of_class}')}, and so on), or, if "
                f"{name!r} is a class, {A_FILE.format(name)}"
            )


def innermost(folder: Path) -> Path:
    """The first folder, from this one downwards, that holds more than one folder."""
    inner = subfolders(folder)
    while len(inner) == 1 and not holds_photos_itself(folder):
        folder = folder / inner[0]
        inner = subfolders(folder)
    return folder


def _check_shards(classes: Mapping[str, _Class], *, base: Path) -> None:
    """Refuse the numbered folders into which img2dataset and its like put photos as they come."""
    for name in classes:
        numbered = NUMBERED.match(name)
        if numbered is None or numbered["words"].casefold() not in OF_SHARDS:
            return
    why = ""
    for name, one in classes.items():
        beside = [name + ending for ending in BESIDE_SHARDS if os.path.isfile(one.place.parent / (name + ending))]
        if beside:
            why = f"{beside[0]} lies beside {name}/"
            break
    n_photos = sum(len(one.images) for one in classes.values())
    if not why and 2 * sum(one.others[".json"] for one in classes.values()) > n_photos:
        why = "their photos have a .json beside them"
    if why:
        first = next(iter(classes))
        raise DataError(
            f"{base}: {first}/ and its like are shards as of img2dataset and not classes, since {why}; write a list of "
            f"the photos with their classes (docs/datasets.md), or, if {first!r} is a class, {A_FILE.format(first)}"
        )


def _check_depth(classes: Mapping[str, _Class], *, base: Path) -> None:
    """Refuse photos that lie two folders deep, if the inner folders may be the classes."""
    n_photos = sum(len(one.images) for one in classes.values())
    n_nested = sum(path.count("/") > 0 for one in classes.values() for path in one.images)
    if len(classes) < 2 or 2 * n_nested <= n_photos:
        return
    _check_copies(classes, base=base)
    inner = _inner_folders(classes)
    different = sorted(set().union(*inner.values()))
    if _hold_details(inner, different=different):
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


def _inner_folders(classes: Mapping[str, _Class]) -> dict[str, set[str]]:
    """The folders of each class at the first depth at which there are several in all."""
    nested = {name: [path.split("/")[:-1] for path in one.images] for name, one in classes.items()}
    while True:
        inner = {name: {folders[0] for folders in of_class if folders} for name, of_class in nested.items()}
        deeper = {name: [folders[1:] for folders in of_class] for name, of_class in nested.items()}
        if len(set().union(*inner.values())) > 1 or not any(map(any, deeper.values())):
            return inner
        nested = deeper


def _check_dates(classes: Mapping[str, _Class], *, base: Path) -> None:
    """Refuse folders that say when photos were taken, and parts into which these were cut."""
    for what, are_such in (("dates", is_date), ("parts of a dataset", NO_CLASSES.fullmatch)):
        if len(classes) > 1 and all(map(are_such, classes)):
            first = next(iter(classes))
            raise DataError(
                f"{base}: its folders are {what} and not classes, {some([*classes])}; put each class's photos into one "
                f"folder, write a list of the photos with their classes (docs/datasets.md), or, if {first!r} is a "
                f"class, {A_FILE.format(first)}"
            )


def _check_copies(classes: Mapping[str, _Class], *, base: Path) -> None:
    """Refuse folds or copies of one dataset: folders each of which holds two or more folders that others hold, too."""
    branches = {name: _branches(one.images) for name, one in classes.items()}
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


def _branches(paths: Sequence[str]) -> dict[str, str]:
    """The folders at the first depth at which there are several, by their `key`; none if there is one at each."""
    nested = [path.split("/")[:-1] for path in paths if "/" in path]
    while nested:
        names = {folders[0] for folders in nested}
        if len(names) > 1:
            return {key(name): name for name in names}
        nested = [folders[1:] for folders in nested if len(folders) > 1]
    return {}


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
