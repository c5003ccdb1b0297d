"""Whether the folders that are taken for classes are such: parts, splits, shards and copies of a dataset are not."""

import os
import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from wsoup.base.errors import DataError
from wsoup.base.folder_names import composed
from wsoup.datasets.boxes import boxes_line
from wsoup.datasets.class_depth import A_FILE, ClassFolders, check_depth
from wsoup.datasets.listing import some
from wsoup.datasets.part_names import (
    NO_CLASSES,
    copied_from,
    in_split,
    is_date,
    is_part,
    seems_no_class,
    without_meaning,
)
from wsoup.datasets.release_lists import release_list_in
from wsoup.datasets.shape import OF_PHOTOS
from wsoup.datasets.walk import Contents, holds_photos_itself, subfolders
from wsoup.datasets.without_folders import way_out

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


def check_classes(found: Mapping[str, Mapping[str, Contents]], *, base: Path, folders: Mapping[str, Path]) -> None:
    """Refuse class folders that are more probably parts, shards or copies of a dataset, or hold the classes themselves.

    Args:
        found: what each class folder with photos holds, by split and name.
        base: the folder, for messages.
        folders: that of each split, which holds the class folders.

    Raises:
        DataError: says which folders, and what to do.
    """
    classes: dict[str, ClassFolders] = {}
    for split, of_split in found.items():
        for name, contents in of_split.items():
            one = classes.setdefault(composed(name), ClassFolders(folders[split] / name, [], Counter()))
            one.images.extend(contents.images)
            one.others.update(contents.others)
    _check_parts(classes, base=base)
    _check_splits(classes, base=base)
    _check_shards(classes, base=base)
    check_depth(classes, base=base, folders={split: folders[split] for split in found})
    _check_dates(classes, base=base)
    _check_copied(classes)


def _check_parts(classes: Mapping[str, ClassFolders], *, base: Path) -> None:
    """Refuse ``images/`` beside ``annotations/`` and the like, whether or not there are photos in the latter."""
    of_photos = [name for name in classes if name.casefold() in OF_PHOTOS]
    if not of_photos:
        return
    beside = [name for name in subfolders(base) if name.casefold() in BESIDE_PHOTOS]
    others = [name for name in classes if name.casefold() in BESIDE_PHOTOS] or beside
    if not others:
        return
    of_boxes = boxes_line(base)
    # Whatever else holds pictures beside ``JPEGImages/`` and boxes, such as ``SegmentationClass/``, is no class either.
    if of_boxes or {*classes} <= {*of_photos, *others}:
        inner = innermost(classes[of_photos[0]].place)
        of_classes = [name for name in subfolders(inner) if in_split(name) is None]
        step = way_out(inner, base=base) or "write a list of the photos with their classes (docs/datasets.md)"
        listed = [found for name in others if (found := release_list_in(base / name)) is not None]
        if len(of_classes) > 1:
            step = f"name {inner}"
        elif listed:
            step = f"name {listed[0]}, a list of classes that is read"
        raise DataError(f"{base}: {of_photos[0]}/ and {others[0]}/ are parts of a dataset and not classes; {step}")


def _check_splits(classes: Mapping[str, ClassFolders], *, base: Path) -> None:
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
    n_beside = sum(map(seems_no_class, classes))
    if n_plain + n_beside == len(classes) and len(plain) > 1:
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


def _check_shards(classes: Mapping[str, ClassFolders], *, base: Path) -> None:
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


def _check_dates(classes: Mapping[str, ClassFolders], *, base: Path) -> None:
    """Refuse folders that say when photos were taken, and parts into which these were cut."""
    for what, are_such in (("dates", is_date), ("parts of a dataset", NO_CLASSES.fullmatch)):
        if len(classes) > 1 and all(map(are_such, classes)):
            first = next(iter(classes))
            raise DataError(
                f"{base}: its folders are {what} and not classes, {some([*classes])}; put each class's photos into one "
                f"folder, write a list of the photos with their classes (docs/datasets.md), or, if {first!r} is a "
                f"class, {A_FILE.format(first)}"
            )


def _check_copied(classes: Mapping[str, ClassFolders]) -> None:
    """Refuse ``cat (1)/`` and ``cat - Copy/`` beside ``cat/``."""
    for name, one in classes.items():
        first = copied_from(name)
        if first in classes:
            raise DataError(
                f"{str(one.place)!r} has the name of a copy of {first!r}, so that both may be one class; merge them, "
                f"move the copy elsewhere, or, if {name!r} is a class, {A_FILE.format(name)}"
            )


def no_classes_line(names: Collection[str]) -> str:
    """A line on class folders that are called like what lies beside classes, or like parts; "" if there are none."""
    odd = [name for name in names if seems_no_class(name)]
    if odd:
        return f"taken for classes, move them elsewhere if they are none: {some(odd)}"
    # A person's handwriting may be one; but who names the folder of a class has its sites taken for classes.
    if names and all(map(is_part, names)):
        return f"taken for classes, though they are called like places, times or parts of a dataset: {some([*names])}"
    return ""
