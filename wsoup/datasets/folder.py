"""ImageFolder: root/{train,val,test}/class/.../image, or root/class/.../image for a test set alone.

Which folders are splits and which are classes is decided by `wsoup.datasets.shape`. Labels follow the sorted names of
class folders, which are compared in one Unicode form. An optional ``classnames.txt`` in the root renames them, one line
per class: the folder's name, white space, the class name (CoOp's form, ``n01440764 tench``).

Class folders without images count as if they were not there, and so does a split that has no others. Whoever lists a
folder for a user says which these are (`wsoup.datasets.left_out`).
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from wsoup.base.errors import DataError
from wsoup.base.folder_names import alike, composed, forms_line
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.boxes import boxes_line
from wsoup.datasets.class_folders import check_classes, innermost
from wsoup.datasets.class_lines import names_of, read_class_names
from wsoup.datasets.containers import containers_line
from wsoup.datasets.flat_names import proposal
from wsoup.datasets.listing import Listing, some
from wsoup.datasets.names_file import of_folders
from wsoup.datasets.photo_files import expected
from wsoup.datasets.shape import Shape, shape_of
from wsoup.datasets.walk import (
    SPLIT_FOLDERS,
    Contents,
    contents_of,
    has_photos,
    prefix_of,
    split_of_folders,
    subfolders,
)
from wsoup.datasets.without_folders import way_out

Found = Mapping[str, Mapping[str, Contents]]
"""What each class folder holds, by split and by the folder's name."""
BREAKS = re.compile(r"[\t-\r\x1c-\x1f\x85\u2028\u2029]")
"""White space that ends a line or jumps in it."""


def read(root: str, *, wanted: Collection[str] = SPLIT_FOLDERS, class_names: str | None = None) -> Listing:
    """List an ImageFolder.

    Args:
        root: the folder.
        wanted: the splits to list; the classes are those of these splits.
        class_names: a file of class names by folder (`wsoup.datasets.names_file`), or None.

    Raises:
        MissingError: no such folder or file.
        DataError: no class folders, none with an image, folders that are probably no classes and that no file names, a
            class folder without a line in `class_names`, two whose names a reader cannot tell apart, a name that is not
            UTF-8, a loop of symbolic links, or something named like an image that is not a file.
    """
    shape = shape_of(root)
    base = shape.base
    folders = _wanted_folders(shape, wanted=wanted)
    found = {split: _contents_by_class(folder) for split, folder in folders.items()}
    with_images = {split: _with_images(of_split) for split, of_split in found.items()}
    classes = _by_class(with_images.values())
    if not classes:
        raise _no_classes(base, folders=folders, found=found)
    splits = {}
    for split, of_split in with_images.items():
        if of_split:
            images_of = {name: contents.images for name, contents in of_split.items()}
            forms = list(classes.values())
            splits[split] = split_of_folders(images_of, classes=forms, prefix=prefix_of(base, folders[split]))
    names = _names(base, folders=folders, found=with_images, classes=list(classes), class_names=class_names)
    # Two folders may be called alike by the user, as ImageNet's two of "missile".
    notes = [line for line in [forms_line(form for forms in classes.values() for form in forms)] if line]
    return Listing(root, names, splits, origin=root, names_may_repeat=True, notes=notes)


def _names(
    base: Path, *, folders: Mapping[str, Path], found: Found, classes: Sequence[str], class_names: str | None
) -> list[str]:
    """The cleaned names of class folders: of the user's file, of classnames.txt, or their own."""
    if class_names:
        return [clean_class_name(name) for name in of_folders(class_names, folders=classes)]
    of_coop = base / "classnames.txt"
    renamed = {}
    # A broken link counts as a file that is there: whoever made it meant the classes to be renamed.
    if os.path.lexists(of_coop):
        renamed = {composed(name): text for name, text in read_class_names(of_coop).items()}
    if not renamed:
        _check_one_line(classes, base=base)
        check_classes(found, base=base, folders=folders)
        _check_alike(classes, folders=folders, found=found)
        renamed = {name: name for name in classes}
    return names_of(classes, renamed=renamed, origin=str(of_coop))


def _check_one_line(classes: Sequence[str], *, base: Path) -> None:
    """Refuse names with a line break or a tab, which cleaning would make a space of; others are refused as they are."""
    for name in classes:
        if BREAKS.search(name):
            raise DataError(f"{base}: class folder {name!r} holds a control character; rename it in plain text")


def _check_alike(classes: Sequence[str], *, folders: Mapping[str, Path], found: Found) -> None:
    """Refuse two class folders whose names a reader cannot tell apart, unless a file names the classes."""
    pair = alike(classes)
    if pair is None:
        return
    places = []
    for name in pair:
        split = next(split for split, of_split in found.items() if name in {composed(each) for each in of_split})
        places.append(f"{str(folders[split] / name)!r}")
    raise DataError(
        f"{places[0]} and {places[1]} differ in case, separators or blanks alone, so that no reader tells the two "
        "classes apart; merge or rename them, or name the classes in a file (folder, a tab, class name on a line)"
    )


def class_folders(root: str, *, wanted: Collection[str] = SPLIT_FOLDERS) -> list[str]:
    """The class folders that `read` lists, in label order and composed letters; it raises as `read`."""
    folders = _wanted_folders(shape_of(root), wanted=wanted).values()
    classes: set[str] = set()
    for folder in folders:
        classes.update(composed(name) for name in subfolders(folder) if has_photos(folder / name))
    return sorted(classes)


def check_several(listing: Listing, *, wanted: Collection[str]) -> None:
    """Refuse a folder of one class, whose photos cannot be told apart; DataError names the folder that may be meant."""
    if len(listing.class_names) > 1:
        return
    (name,) = class_folders(listing.root, wanted=wanted)
    for place in shape_of(listing.root).holders.values():
        inner = innermost(place / name) if (place / name).is_dir() else place
        if inner != place and len(subfolders(inner)) > 1:
            deeper = f"; if its folders are the classes, name {inner}"
            break
        if inner != place and proposal(inner):
            deeper = f"; {way_out(inner, base=Path(listing.root))}"
            break
    else:
        step = "if a file names the classes of its photos, write a list of these (docs/datasets.md)"
        deeper = f"; {boxes_line(Path(listing.root)) or step}"
    raise DataError(
        f"{listing.root} has one class, {listing.class_names[0]!r}; photos are told apart between two or more{deeper}"
    )


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
            held = containers_line(flat)
            more = f" ({held})" if held else ""
            raise DataError(f"{flat} has no class folders; expected {flat}/<class>/<image>{more}")
    of_split = shape.holders
    # If none of the wanted splits is there, all are listed, so that the caller's error can name them.
    return {name: folder for name, folder in of_split.items() if name in wanted} or of_split


def _contents_by_class(folder: Path) -> dict[str, Contents]:
    """What each class folder holds."""
    return {name: contents_of(folder / name) for name in subfolders(folder)}


def _with_images(of_split: Mapping[str, Contents]) -> dict[str, Contents]:
    return {name: contents for name, contents in of_split.items() if contents.images}


def _by_class(of_splits: Collection[Mapping[str, Contents]]) -> dict[str, list[str]]:
    """The folders of each class of any split, by its name in composed letters, sorted: the order of labels."""
    forms: dict[str, set[str]] = {}
    for of_split in of_splits:
        for name in of_split:
            forms.setdefault(composed(name), set()).add(name)
    return {name: sorted(forms[name]) for name in sorted(forms)}


def _no_classes(base: Path, *, folders: Mapping[str, Path], found: Found) -> DataError:
    """The error for a folder without class folders, or with none that holds images."""
    empty = [str(folders[split] / name) for split, of_split in found.items() for name in of_split]
    broken = [
        str(folders[split] / name / path)
        for split, of_split in found.items()
        for name, contents in of_split.items()
        for path in contents.broken
    ]
    if broken:
        return DataError(
            f"no class folder of {base} holds an image: {len(broken):,} files are links that lead nowhere, such as "
            f"{broken[0]}; fetch what they stand for (git annex get, dvc pull), or copy the photos themselves"
        )
    held = containers_line(base)
    if held:
        return DataError(f"{base} has no class folders with photos; {held}")
    if empty:
        return DataError(f"no class folder of {base} holds an image ({some(empty)}); add {expected()} files")
    proposed = way_out(base, base=base)
    if proposed:
        return DataError(f"{base} has no class folders; {proposed}")
    return DataError(
        f"{base} has no class folders; expected {base}/train/<class>/<image> and {base}/test/<class>/<image>, "
        f"or {base}/<class>/<image>"
    )
