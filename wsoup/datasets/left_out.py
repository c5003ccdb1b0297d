"""Photos of an image folder that no listing reads: of unknown kinds, outside of class folders, beside train/ or test/.

They change no result, so they are counted here and not where a folder is listed; but nobody should miss them unaware.
The same holds of class folders without photos.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from wsoup.datasets.listing import some
from wsoup.datasets.photo_files import UNFINISHED, UNKNOWN_KINDS, ending, is_hidden, is_photo
from wsoup.datasets.shape import Shape, nested_classes, shape_of
from wsoup.datasets.walk import subfolders
from wsoup.disk.files import shown


def left_out(root: str) -> list[str]:
    """A line for each reason why photos or classes below an ImageFolder are not read, with their number.

    Args:
        root: the folder, with train/<class>/, val/<class>/ or test/<class>/, or <class>/.
    """
    shape = shape_of(root)
    unknown: Counter[str] = Counter()
    photos_of: dict[str, list[str]] = {}
    outside = _pictures_in(shape.base)
    for folder in shape.holders.values():
        if folder != shape.base:
            outside += _pictures_in(folder)
        for name in subfolders(folder):
            files = list(files_in(str(folder / name)))
            unknown.update(not_read(files))
            photos = [os.path.relpath(path, folder / name) for path in files if is_photo(path)]
            photos_of.setdefault(name, []).extend(photos)
    lines = []
    if unknown:
        lines.append(in_words(unknown))
    # A class may have photos in another split.
    classes = sorted(name for name, photos in photos_of.items() if not photos)
    if classes:
        lines.append(f"left out, since no photo in them can be read: the class folders {some(classes)}")
    if outside:
        example = shown(outside[0])
        lines.append(f"left out, move them into class folders: {len(outside)} beside them, such as {example}")
    lines += _without_classes(shape) + _beside(shape)
    nested = nested_classes({name: photos for name, photos in photos_of.items() if photos})
    if nested:
        lines.append(nested)
    return lines


def _without_classes(shape: Shape) -> list[str]:
    """A line about each folder that is named like a split and has no class folders."""
    lines = []
    for folder in shape.flat.values():
        n_pictures = sum(_is_picture(path) for path in files_in(str(folder)))
        name = folder.relative_to(shape.base).as_posix()
        lines.append(f"left out, since {name}/ has no class folders: {n_pictures} photos in it")
    return lines


def _beside(shape: Shape) -> list[str]:
    """A line about folders of photos beside those of splits."""
    beside = {}
    for name in shape.beside:
        n_pictures = sum(_is_picture(path) for path in files_in(str(shape.base / name)))
        if n_pictures:
            beside[name] = n_pictures
    if not beside:
        return []
    known = " and ".join(f"{folder.relative_to(shape.base).as_posix()}/" for folder in shape.splits.values())
    return [f"left out, only classes in {known} are read: {sum(beside.values())} in {some(list(beside))}"]


def not_read(paths: Iterable[str]) -> Counter[str]:
    """How many files are pictures that are not read, by their ending."""
    endings = Counter(ending(path) for path in paths)
    return Counter({kind: count for kind, count in endings.items() if kind in UNKNOWN_KINDS | UNFINISHED})


def in_words(unknown: Counter[str]) -> str:
    """One line about files of `not_read`."""
    to_convert = ", ".join(f"{count} {kind}" for kind, count in sorted(unknown.items()) if kind in UNKNOWN_KINDS)
    unfinished = ", ".join(f"{count} {kind}" for kind, count in sorted(unknown.items()) if kind in UNFINISHED)
    parts = []
    if to_convert:
        parts.append(f"convert them to .jpg: {to_convert}")
    if unfinished:
        parts.append(f"unfinished files or copies: {unfinished}")
    return f"left out, {'; '.join(parts)}"


def files_in(folder: str) -> Iterator[str]:
    """Files in a folder and its subfolders, except hidden ones, in the order of names."""
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        real = os.path.realpath(place)
        # A link to a parent folder would never end.
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        for name in sorted(names):
            if not is_hidden(name):
                yield os.path.join(place, name)


def _pictures_in(folder: Path) -> list[str]:
    """Pictures that lie in a folder itself."""
    with os.scandir(folder) as entries:
        paths = [entry.path for entry in entries if entry.is_file() and not is_hidden(entry.name)]
    return sorted(path for path in paths if _is_picture(path))


def _is_picture(path: str) -> bool:
    return is_photo(path) or ending(path) in UNKNOWN_KINDS
